//! A program that touches files as it is told on its standard input, one operation a line, and
//! answers each with `ok` or `error N` (errno). The shim's own tests run it under the shim.
//! What it acknowledges it has done; what it has synced must survive a power loss.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::os::unix::fs::FileExt;

fn main() {
    let mut open = HashMap::new();
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match perform(&mut open, &words) {
            Ok(()) => "ok".to_owned(),
            Err(error) => format!("error {}", error.raw_os_error().unwrap_or(0)),
        };
        let mut out = io::stdout().lock();
        if writeln!(out, "{answer}").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

fn perform(open: &mut HashMap<String, File>, words: &[&str]) -> io::Result<()> {
    match words {
        ["open", path] => {
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
            open.insert((*path).to_owned(), file);
            Ok(())
        }
        ["append", path, text] => {
            OpenOptions::new().append(true).open(path)?.write_all(text.as_bytes())
        }
        ["put", path, offset, text] => {
            let offset = offset.parse().map_err(io::Error::other)?;
            file(open, path)?.write_all_at(text.as_bytes(), offset)
        }
        ["truncate", path, length] => {
            let length = length.parse().map_err(io::Error::other)?;
            file(open, path)?.set_len(length)
        }
        ["replace", path, text] => fs::write(path, text),
        ["sync", path] => file(open, path)?.sync_data(),
        ["sync-folder", path] => File::open(path)?.sync_all(),
        ["rename", from, to] => fs::rename(from, to),
        ["remove", path] => fs::remove_file(path),
        ["folder", path] => fs::create_dir(path),
        // A child must not be counted, nor die in place of this process.
        ["child-append", path, text] => {
            let script = format!("printf %s {text} >> {path}");
            let done = std::process::Command::new("sh").args(["-c", &script]).status()?;
            if done.success() { Ok(()) } else { Err(io::Error::other("child failed")) }
        }
        // Many threads writing and syncing at once; returns when all are through.
        ["storm", folder, threads, rounds] => {
            let threads: usize = threads.parse().map_err(io::Error::other)?;
            let rounds: usize = rounds.parse().map_err(io::Error::other)?;
            storm(folder, threads, rounds)
        }
        _ => Err(io::Error::from_raw_os_error(22)),
    }
}

fn file<'a>(open: &'a HashMap<String, File>, path: &str) -> io::Result<&'a File> {
    open.get(path).ok_or_else(|| io::Error::from_raw_os_error(9))
}

/// Each thread appends numbered lines to its own file and, after syncing a line, prints
/// `acked FILE LINE`.
fn storm(folder: &str, threads: usize, rounds: usize) -> io::Result<()> {
    let workers: Vec<_> = (0..threads)
        .map(|thread| {
            let path = format!("{folder}/storm-{thread}");
            std::thread::spawn(move || -> io::Result<()> {
                let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
                File::open(std::path::Path::new(&path).parent().unwrap_or("/".as_ref()))?
                    .sync_all()?;
                for round in 0..rounds {
                    writeln!(file, "{round}")?;
                    file.sync_data()?;
                    println!("acked storm-{thread} {round}");
                }
                Ok(())
            })
        })
        .collect();
    for worker in workers {
        worker.join().map_err(|_| io::Error::other("a thread panicked"))??;
    }
    Ok(())
}
