//! Which formats are found in samples: each line of the input is `["id", "text"]`; each of the
//! output the id and the names of what was found. With `--cost` the time for each MB of the input.

use std::cell::RefCell;
use std::io::{self, BufRead as _};
use std::time::Instant;

use skep_scrub::{Scrubber, Secret, Stream};

fn main() -> io::Result<()> {
    let scrubber = Scrubber::default();
    if std::env::args().any(|argument| argument == "--cost") {
        let text = io::read_to_string(io::stdin())?;
        scrubber.add([Secret::new("known", "an-example-key-0123456789")]);
        for size in [256, 4 << 10, 64 << 10, text.len()] {
            let pieces = || text.as_bytes().chunks(size).filter_map(|it| str::from_utf8(it).ok());
            let with = cost(pieces, |piece| scrubber.clean(piece).len());
            let without = cost(pieces, |piece| scrubber.clean_file(piece).len());
            println!("pieces of {size}: {with:.2} ms/MB, known secrets alone {without:.2}");
        }
        let tokens = || text.split_inclusive(' ');
        let streamed = |stream: Stream| {
            let stream = RefCell::new(stream);
            cost(tokens, |token| stream.borrow_mut().push(&scrubber, token.to_owned()).len())
        };
        let (with, without) = (streamed(Stream::default()), streamed(Stream::of_file()));
        println!("a stream of words: {with:.2} ms/MB, known secrets alone {without:.2}");
        return Ok(());
    }
    for line in io::stdin().lock().lines() {
        let Ok((id, text)) = serde_json::from_str::<(String, String)>(&line?) else { continue };
        let names: Vec<String> = scrubber.names(&text).into_iter().map(|(_, name)| name).collect();
        println!("{id}\t{}", names.join(","));
    }
    Ok(())
}

/// The best of some rounds, in milliseconds for each MB.
fn cost<'t, P: Iterator<Item = &'t str>>(
    pieces: impl Fn() -> P,
    clean: impl Fn(&str) -> usize,
) -> f64 {
    let size: usize = pieces().map(str::len).sum();
    let rounds = (0..15).map(|_| {
        let begun = Instant::now();
        std::hint::black_box(pieces().map(&clean).sum::<usize>());
        begun.elapsed().as_secs_f64()
    });
    rounds.fold(f64::MAX, f64::min) * 1000.0 / (size as f64 / f64::from(1 << 20))
}
