-- Why the model stopped where a turn was answered: an answer that was cut off is not a whole one.
ALTER TABLE turns ADD COLUMN stop_reason TEXT;
