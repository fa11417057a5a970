-- The text of the skill that an item is done with: it goes into history before the item's words.
ALTER TABLE items ADD COLUMN skill_text TEXT;
