//! Texts of which only a part is shown. Secrets go before the rest is cut off: half of one would
//! not be known for one.

use std::borrow::Cow;
use std::ops::Range;

use super::{Formats, Scrubber};

impl Scrubber {
    /// The first characters of a text without secrets. Of a long text no more is looked at than
    /// a secret may reach.
    pub fn beginning(&self, text: &str, most: usize) -> String {
        let bytes = most.saturating_mul(4).saturating_add(self.reach());
        let near = &text[..text.floor_char_boundary(bytes)];
        self.clean(near).chars().take(most).collect()
    }

    /// A text that was cut off, and kept so, before what is a secret now was known as one:
    /// without secrets, and without half or more of one at its end. Less than half stays: whoever
    /// writes texts could else find one letter by letter, by what goes.
    pub fn clean_cut<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let table = self.table();
        let view = table.view(text, Formats::Kept);
        let done = view.all().last().map_or(0, |found| found.end);
        let begun = view.unfinished(done, 0);
        match table.is_most(&text.as_bytes()[begun..]) {
            false => self.clean(text),
            true => Cow::Owned(format!("{}…", self.clean(&text[..begun]))),
        }
    }

    /// The text up to where its end may be the beginning of a secret: for what a program has said
    /// so far, who knows what it says anyway.
    pub fn finished<'t>(&self, text: &'t str) -> &'t str {
        let table = self.table();
        let view = table.view(text, Formats::Kept);
        let done = view.all().last().map_or(0, |found| found.end);
        &text[..text.floor_char_boundary(view.unfinished(done, 0))]
    }

    /// Where secrets stand in a text, in their order, and what is shown in the place of each.
    pub fn places(&self, text: &str) -> Vec<(Range<usize>, String)> {
        let table = self.table();
        let all = table.view(text, Formats::Found).all();
        all.into_iter().map(|found| (found.start..found.end, found.marker.to_owned())).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Scrubber, Secret};

    fn scrubber() -> Scrubber {
        let scrubber = Scrubber::default();
        scrubber.add([Secret::new("vault.WORDS", "correct horse battery staple 77")]);
        scrubber
    }

    #[test]
    fn what_is_cut_off_is_cut_behind_the_name_of_a_secret() {
        let text = "it is correct horse battery staple 77, or not";
        for (most, expected) in
            [(5, "it is"), (9, "it is [se"), (26, "it is [secret:vault.WORDS]"), (99, "")]
        {
            let expected = match expected {
                "" => "it is [secret:vault.WORDS], or not",
                short => short,
            };
            assert_eq!(scrubber().beginning(text, most), expected);
        }
        // Also where there is far more text behind it than is looked at.
        let long = format!("{text} {}", "ä ".repeat(1 << 20));
        assert_eq!(scrubber().beginning(&long, 12), "it is [secre");
    }

    #[test]
    fn what_was_cut_off_earlier_does_not_end_with_the_beginning_of_a_secret() {
        let cases = [
            ("it is correct horse batt", "it is …"),
            ("it is correct horse ba", "it is …"),
            ("it is correct horse b", "it is correct horse b"),
            ("it is another", "it is another"),
            (
                "correct horse battery staple 77 and correct horse battery",
                "[secret:vault.WORDS] and …",
            ),
            ("correct horse battery staple 77", "[secret:vault.WORDS]"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(scrubber().clean_cut(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_finished_ends_before_what_may_become_a_secret() {
        let cases = [
            ("it is correct horse b", "it is "),
            ("it is corr", "it is "),
            ("it is correct horse battery staple 77", "it is correct horse battery staple 77"),
            ("it is another thing", "it is another thing"),
        ];
        for (text, expected) in cases {
            assert_eq!(scrubber().finished(text), expected, "{text}");
        }
    }
}
