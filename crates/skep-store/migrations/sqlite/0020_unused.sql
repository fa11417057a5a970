-- Approvals that were given and never used, found without looking at all that were.
CREATE INDEX approvals_unused ON approvals (number) WHERE state = 'approved' AND used_at IS NULL;
