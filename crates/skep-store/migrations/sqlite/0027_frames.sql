-- Old frames are found by channel.
DROP INDEX outbox_at;
