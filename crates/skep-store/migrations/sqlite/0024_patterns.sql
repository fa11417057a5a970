-- A lasting yes to a line of several commands has one pattern for each: a list, as JSON.
ALTER TABLE approvals RENAME COLUMN pattern TO patterns;
UPDATE approvals SET patterns = json_array(patterns) WHERE patterns IS NOT NULL;
