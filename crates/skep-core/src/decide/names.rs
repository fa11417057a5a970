//! Names people mistype.

/// The closest name, at most three edits away and sharing at least one character's worth.
pub fn nearest<'a>(written: &str, valid: &[&'a str]) -> Option<&'a str> {
    let length = |text: &str| text.chars().count();
    valid
        .iter()
        .map(|name| (strsim::damerau_levenshtein(written, name), *name))
        .filter(|(distance, name)| *distance <= 3 && *distance < length(name).max(length(written)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn nearest_takes_the_smallest_distance_up_to_three() {
        let valid = ["port", "bind", "public_url", "allowed_origins"];
        assert_eq!(nearest("prot", &valid), Some("port"));
        assert_eq!(nearest("publicurl", &valid), Some("public_url"));
        assert_eq!(nearest("public-urls", &valid), Some("public_url"));
        assert_eq!(nearest("database", &valid), None);
        assert_eq!(nearest("xy", &["ws"]), None);
    }
}
