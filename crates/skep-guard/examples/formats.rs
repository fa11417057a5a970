//! Which formats are found in samples: each line of the input is `["id", "text"]`; each of the
//! output the id and the names of what was found. With `--cost` the time for each MB of the input.

use std::io::{self, BufRead as _};
use std::time::Instant;

use skep_guard::scrub::Scrubber;

fn main() -> io::Result<()> {
    let scrubber = Scrubber::default();
    if std::env::args().any(|argument| argument == "--cost") {
        let text = io::read_to_string(io::stdin())?;
        scrubber.clean("");
        let mut best = f64::MAX;
        let mut changed = 0;
        for _ in 0..15 {
            let begun = Instant::now();
            changed = scrubber.clean(&text).len().abs_diff(text.len());
            best = best.min(begun.elapsed().as_secs_f64() * 1000.0);
        }
        let file = (0..15).map(|_| {
            let begun = Instant::now();
            let kept = scrubber.clean_file(&text).len();
            (begun.elapsed().as_secs_f64() * 1000.0, kept)
        });
        let without = file.map(|(time, _)| time).fold(f64::MAX, f64::min);
        let size = text.len() as f64 / f64::from(1 << 20);
        println!(
            "{:.3} ms/MB, without formats {:.3}, changed {changed}",
            best / size,
            without / size
        );
        return Ok(());
    }
    for line in io::stdin().lock().lines() {
        let Ok((id, text)) = serde_json::from_str::<(String, String)>(&line?) else { continue };
        let names: Vec<String> = scrubber.names(&text).into_iter().map(|(_, name)| name).collect();
        println!("{id}\t{}", names.join(","));
    }
    Ok(())
}
