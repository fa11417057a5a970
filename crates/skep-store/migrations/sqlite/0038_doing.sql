-- What an agent says it does, in a line.
ALTER TABLE agents ADD COLUMN doing TEXT;
