#![allow(clippy::unwrap_used)]

use super::rules::{self, BodyPart, FormatRule, Letters};
use super::*;
use crate::{Scrubber, Stream};

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) as usize % bound
    }

    fn of(&mut self, alphabet: &[u8], count: usize) -> String {
        (0..count).map(|_| char::from(alphabet[self.below(alphabet.len())])).collect()
    }

    fn letters(&mut self, letters: Letters) -> String {
        let alphabet: Vec<u8> = (0..128).filter(|b| class(*b) & letters.classes != 0).collect();
        let more = self.below(letters.most.min(letters.least + 40) - letters.least + 1);
        self.of(&alphabet, letters.least + more)
    }
}

/// One secret as a rule describes it.
struct Sample {
    name: &'static str,
    /// What stays: the name before a gap.
    kept: String,
    text: String,
}

fn sample(rule: &FormatRule, begin: &'static str, numbers: &mut Numbers) -> Sample {
    let before = rule.before.map_or(String::new(), |letters| numbers.letters(letters));
    let mut sample = Sample { name: rule.name, kept: String::new(), text: before + begin };
    for part in &rule.parts {
        match part {
            BodyPart::Text(text) => sample.text.push_str(text),
            BodyPart::Of(letters) => sample.text.push_str(&numbers.letters(*letters)),
            BodyPart::Gap => {
                sample.kept = std::mem::take(&mut sample.text) + "=";
            }
        }
    }
    sample
}

fn samples() -> Vec<Sample> {
    let mut numbers = Numbers(15);
    let rules = FORMATS.rules.iter();
    let begins = rules.flat_map(|rule| rule.begins.iter().map(move |begin| (rule, *begin)));
    begins.map(|(rule, begin)| sample(rule, begin, &mut numbers)).collect()
}

const AROUND: [(&str, &str); 7] = [
    ("", ""),
    ("key = \"", "\";"),
    ("{\"k\":\"", "\"}"),
    ("first\\n", "\\nlast"),
    ("https://user:", "@host/"),
    ("\u{1b}[01;31m", "\u{1b}[m"),
    ("?key%3D", "%26more"),
];

#[test]
fn every_line_of_the_table_is_a_rule() {
    let names: Vec<&str> =
        rules::lines().map(|line| line.split('|').next().unwrap().trim()).collect();
    assert_eq!(FORMATS.rules.iter().map(|rule| rule.name).collect::<Vec<_>>(), names);
    assert!(FORMATS.finder.is_some() && names.len() > 100);
    for rule in &FORMATS.rules {
        let least: usize = rule
            .parts
            .iter()
            .map(|part| match part {
                BodyPart::Of(letters) => letters.least,
                BodyPart::Text(text) => text.len(),
                BodyPart::Gap => 0,
            })
            .sum();
        for begin in &rule.begins {
            let is_named = rule.parts.iter().any(|part| matches!(part, BodyPart::Gap));
            let run = begin.len() + if is_named { 0 } else { least };
            let gapless = is_named && begin.len() + 1 + least >= SHORTEST_RUN;
            assert!(run >= SHORTEST_RUN || gapless, "{} {begin}: {run}", rule.name);
        }
    }
}

#[test]
fn the_page_lists_every_rule() {
    let page = include_str!("../../../docs/secret-formats.md");
    for (name, issuer) in issuers() {
        let line = format!("| `{name}` | {issuer} |");
        assert!(page.contains(&line), "docs/secret-formats.md lacks: {line}");
    }
}

#[test]
fn a_sample_of_every_rule_is_found_wherever_it_stands() {
    let scrubber = Scrubber::default();
    for Sample { name, kept, text, .. } in samples() {
        for (before, after) in AROUND {
            let whole = format!("{before}{kept}{text}{after}");
            let cleaned = scrubber.clean(&whole).into_owned();
            let (start, end) =
                cleaned.split_once("[secret:format.").unwrap_or_else(|| panic!("{name}: {whole}"));
            assert_eq!(start, format!("{before}{kept}"), "{name}: {whole}");
            assert_eq!(end.split_once(']').unwrap().1, after, "{name}: {whole} -> {cleaned}");
            assert!(scrubber.is_marked(&cleaned));
        }
    }
}

/// What passes is what the whole gives.
#[test]
fn a_sample_cut_at_any_byte_never_passes() {
    let scrubber = Scrubber::default();
    for Sample { name, kept, text } in samples() {
        let whole = format!("say: {kept}{text}, and on");
        let cleaned = scrubber.clean(&whole).into_owned();
        let check = |pieces: &[&str]| {
            let mut stream = Stream::default();
            let mut out: String =
                pieces.iter().map(|p| stream.push(&scrubber, (*p).to_owned())).collect();
            out.push_str(&stream.finish(&scrubber));
            assert_eq!(out, cleaned, "{name}: {pieces:?}");
        };
        for cut in 0..=whole.len() {
            check(&[&whole[..cut], &whole[cut..]]);
        }
        if whole.len() < 500 {
            check(&(0..whole.len()).map(|at| &whole[at..=at]).collect::<Vec<_>>());
        }
    }
}

#[test]
fn placeholders_and_halves_stay() {
    let scrubber = Scrubber::default();
    for text in [
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "AKIAIOSFODNN7EXAMPLE",
        "AKIAXXXXXXXXXXXXXXXX",
        "sk-your-key-here",
        "ghp_tooShort",
        "highp_abcdefghijklmnopqrstuvwxyz0123456789",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUJ0v3b2Z0d2FyZSBpcyBuaWNl\n\
         -----END CERTIFICATE-----",
        "[secret:format.github-token]",
    ] {
        assert_eq!(scrubber.clean(text), text);
    }
}

/// Names in code, and hashes behind a few letters.
#[test]
fn words_and_hashes_are_no_tokens() {
    let (md5, sha) = ("9e107d9d372bb6826bd81d3542a419d6", "0123456789abcdef".repeat(4));
    let texts = [
        format!("cache key-{md5}"),
        format!("pubkey-{md5}.pem"),
        format!("SK{md5}"),
        "hf_LoadTheModelFromThePretrainedHubs1".replace('1', "X"),
        "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".to_owned(),
        format!("pattern{}.{sha}", "OfTheOrder"),
        "API-REFERENCEFORTHEDEVELOPERSOF".to_owned()[..30].to_owned(),
        "sk-thequickbrownfoxjumpsoverthelazydog".to_owned(),
        "cioTheChiefInformationOfficerOfUs01".replace("01", "xx"),
        "re_entrance_functionsofmanythreadsxy".to_owned(),
    ];
    let scrubber = Scrubber::default();
    for text in texts {
        assert_eq!(scrubber.clean(&text), text);
        assert_eq!(scrubber.clean(&format!("{text}, and more")), format!("{text}, and more"));
    }
}

#[test]
fn tokens_as_their_issuers_write_them_are_found() {
    let hex = "9e107d9d372bb6826bd81d3542a419d6";
    let random = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAcD";
    let texts = [
        "sb_secret_N7UND0UgjKTVK-Uodkm0Hg_xSvEMPvz".to_owned(),
        format!("skep_{hex}{hex}"),
        format!("nvapi-{random}_{random}"),
        format!("pcsk_5xT2a_{random}{random}"),
        format!("tvly-{}", &random[..32]),
        format!("tvly-dev-{}", &random[..32]),
        format!("https://discord.com/api/webhooks/123456789012345678/{random}-{random}"),
        format!("DISCORD_TOKEN={}.GhIjKl.{}_x9", &random[..26], &random[..30]),
        format!("cio{}", &random[..32]),
        format!("nfp_{random}e5"),
        format!("CCIPAT_{}_{hex}01234567", &random[..22]),
        format!("bkua_{hex}01234567"),
        format!("CFPAT-{random}-f6gH7iJ8"),
        format!("SWMTKN-1-{}{}-{}", &hex, &hex[..18], &hex[..25]),
        format!("phx_{random}e5F6g7H8i"),
        format!("re_aB3dE5gH_{}", &random[..24]),
        format!("mailgun_api_key = \"key-{hex}\""),
        format!("curl -u 'api:key-{hex}'"),
        format!("TWILIO_API_KEY=SK{hex}"),
        "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".to_owned(),
    ];
    let scrubber = Scrubber::default();
    let missed: Vec<String> =
        texts.into_iter().filter(|text| scrubber.names(text).is_empty()).collect();
    assert_eq!(missed, Vec::<String>::new());
}

#[test]
fn every_beginning_has_two_letters() {
    let mut begins = FORMATS.rules.iter().flat_map(|rule| &rule.begins).map(|it| it.as_bytes());
    assert!(begins.all(|begin| begin.len() >= 2 && FORMATS.pairs.are_in(begin)));
}

/// Two hundred of what fills repositories, none of it secret.
#[test]
fn benign_strings_stay() {
    const HEX: &[u8] = b"0123456789abcdef";
    const BASE62: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut n = Numbers(7);
    let mut texts = Vec::new();
    for _ in 0..20 {
        texts.extend([32, 40, 64, 128].map(|length| n.of(HEX, length)));
        let uuid = [8, 4, 4, 4, 12].map(|length| n.of(HEX, length)).join("-");
        texts.push(format!("{{\"id\":\"{uuid}\",\"session\":\"{uuid}\"}}"));
        texts.push(format!("      \"integrity\": \"sha512-{}==\",", n.of(BASE64, 86)));
        texts.push(format!(
            "checksum = \"{}\"\nname = \"sk-learn\"\nversion = \"1.0.{}\"",
            n.of(HEX, 64),
            n.below(99)
        ));
        texts.push(format!("data:image/png;base64,iVBORw0KGgo{}=", n.of(BASE64, 4000)));
        texts.push(format!(
            "!function(e,t){{var n=e.sk_{},r=\"{}\";return n.prototype.api_key=r.access-1}}\
             (a.b,c.d.e.f.g.h)",
            n.of(BASE62, 6),
            n.of(BASE62, 21)
        ));
        texts.push(format!(
            "https://cdn.example.org/assets/index-{}.js?v={}#key-{}",
            n.of(BASE62, 8),
            n.of(HEX, 20),
            n.of(BASE62, 12)
        ));
    }
    assert_eq!(texts.len(), 200);
    let scrubber = Scrubber::default();
    let touched: Vec<_> =
        texts.iter().map(|text| scrubber.names(text)).filter(|n| !n.is_empty()).collect();
    assert_eq!(touched, Vec::<Vec<(usize, String)>>::new());
}

fn private_key(label: &str, head: &str, end: &str) -> String {
    let mut numbers = Numbers(3);
    let lines: Vec<String> = (0..5).map(|_| numbers.of(b"ABCDabcd0123456789+/", 64)).collect();
    let (lines, last) = (lines.join(end), numbers.of(b"ABCDabcd0123", 30));
    format!("-----BEGIN {label}-----{end}{head}{lines}{end}{last}=={end}-----END {label}-----")
}

#[test]
fn private_keys_are_found_whole_and_in_pieces() {
    let scrubber = Scrubber::default();
    let encrypted = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123456789ABCDEF\n\n";
    let keys = [
        private_key("PRIVATE KEY", "", "\n"),
        private_key("RSA PRIVATE KEY", encrypted, "\n"),
        private_key("OPENSSH PRIVATE KEY", "", "\r\n"),
        private_key("EC PRIVATE KEY", "", "\\n"),
        private_key("EC PRIVATE KEY", "", "\\\\r\\\\n"),
        private_key("PRIVATE KEY", "", " "),
        private_key("PRIVATE KEY", "", ""),
        private_key("PGP PRIVATE KEY BLOCK", "Version: GnuPG v2\n\n", "\n"),
        private_key("PRIVATE KEY", "", "\n    "),
    ];
    for key in &keys {
        let text = format!("{{\"k\":\"{key}\",\"n\":1}}");
        assert_eq!(scrubber.clean(&text), "{\"k\":\"[secret:format.private-key]\",\"n\":1}");
        for cut in 0..=text.len() {
            let mut stream = Stream::default();
            let mut out = stream.push(&scrubber, text[..cut].to_owned());
            out.push_str(&stream.push(&scrubber, text[cut..].to_owned()));
            out.push_str(&stream.finish(&scrubber));
            assert!(out.ends_with("[secret:format.private-key]\",\"n\":1}"), "{cut}: {out}");
            assert!(!out.contains(&key[60..70]) && out.len() < 120, "{cut}: {out}");
        }
        // The last line was cut off.
        let open = &key[..key.len() - 60];
        assert_eq!(scrubber.clean(&format!("a {open}")), "a [secret:format.private-key]", "{open}");
    }
}

/// Whoever reads of keys does not wait for the rest of them.
#[test]
fn text_about_keys_flows() {
    let scrubber = Scrubber::default();
    let text = "A file that begins with -----BEGIN PRIVATE KEY----- is one that you keep to \
                yourself, whatever anybody says, and AKIA is how the name of one begins at AWS.";
    let mut stream = Stream::default();
    let mut shown = 0;
    for (at, letter) in text.char_indices() {
        shown += stream.push(&scrubber, letter.to_string()).len();
        assert!(at - shown.min(at) < 110, "{} waits", &text[shown..at]);
    }
    shown += stream.finish(&scrubber).len();
    assert_eq!(shown, text.len());
}
