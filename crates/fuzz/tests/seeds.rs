//! The seeds of `fuzz/seeds` and small changes of them, on every run of the tests. What a fuzzer has found becomes a seed.
//!
//! `FLYBALL_FUZZ_SECONDS=60 cargo test -p flyball-fuzz --test seeds longer -- --nocapture` runs each target so long, without knowledge
//! of what it covers; `FLYBALL_FUZZ=page,pages` chooses targets, `FLYBALL_FUZZ_SEED` other numbers. `fuzz/last` is the latest input.

use std::env;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use flyball_fuzz::TARGETS;

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let entries = fs::read_dir(folder).expect("a folder of seeds");
    let mut files: Vec<_> = entries.map(|file| file.expect("a seed").path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).expect("a seed")).collect()
}

/// Numbers that look random and are the same in every run (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound.max(1) as u64) as usize
    }
}

/// Values that parsers of JSON and YAML and queries may not expect in a place.
const ODD: [&str; 16] = [
    "null",
    "true",
    "0",
    "-1",
    "1.5",
    "9223372036854775807",
    "18446744073709551616",
    "\"\"",
    "\"x\"",
    "\"\u{e4}\"",
    "[]",
    "[null]",
    "[[]]",
    "{}",
    "{\"\":{}}",
    "{\"a\":[{}]}",
];

/// The end of the value that begins at `at`: with its brackets, or up to what ends it.
fn value_end(data: &[u8], at: usize) -> usize {
    let mut depth = 0_usize;
    for (end, byte) in data.iter().enumerate().skip(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 1 => depth -= 1,
            b'}' | b']' if depth == 1 => return end + 1,
            b'}' | b']' | b',' | b'&' | b'\n' if depth == 0 => return end,
            _ => {}
        }
    }
    data.len()
}

/// Puts an odd value in the place of another one.
fn replace_value(data: &mut Vec<u8>, numbers: &mut Numbers) {
    let places: Vec<usize> =
        (1..data.len()).filter(|at| matches!(data[at - 1], b':' | b'[' | b',' | b'=')).collect();
    if let Some(at) = places.get(numbers.below(places.len())) {
        let (odd, end) = (ODD[numbers.below(ODD.len())], value_end(data, *at));
        data.splice(*at..end, odd.bytes());
    }
}

/// One to four edits: a byte replaced, removed, inserted, a piece repeated, or a value replaced.
fn mutate(seed: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut data = seed.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(data.len() + 1);
        let end = (at + numbers.below(16)).min(data.len());
        match numbers.below(8) {
            0 if at < data.len() => data[at] = numbers.below(256) as u8,
            1 if at < end => drop(data.drain(at..end)),
            2 => data.insert(at, b"{}[]\",:0-1.eE+*/= ()\n"[numbers.below(21)]),
            3 => {
                let piece = data[at..end].to_vec();
                data.splice(at..at, piece);
            }
            _ => replace_value(&mut data, numbers),
        }
    }
    data
}

/// The start of one seed and the end of another.
fn splice(one: &[u8], other: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let (until, from) = (numbers.below(one.len() + 1), numbers.below(other.len() + 1));
    [&one[..until], &other[from..]].concat()
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn longer_if_asked_to() {
    let Some(seconds) = number("FLYBALL_FUZZ_SECONDS") else { return };
    let chosen = env::var("FLYBALL_FUZZ").unwrap_or_default();
    let is_chosen = |name: &str| chosen.is_empty() || chosen.split(',').any(|one| one == name);
    for (name, target) in TARGETS.iter().filter(|(name, _)| is_chosen(name)) {
        let mut numbers = Numbers(number("FLYBALL_FUZZ_SEED").unwrap_or(1));
        let (seeds, started) = (seeds(name), Instant::now());
        let (mut count, mut slowest) = (0_u64, (Duration::ZERO, vec![]));
        while started.elapsed() < Duration::from_secs(seconds) {
            let mut one = seeds[numbers.below(seeds.len())].clone();
            if numbers.below(4) == 0 {
                one = splice(&one, &seeds[numbers.below(seeds.len())], &mut numbers);
            }
            let data = mutate(&one, &mut numbers);
            // An abort, as of a stack overflow, leaves nothing else.
            fs::write("../../fuzz/last", &data).expect("to write the input");
            let began = Instant::now();
            target(&data);
            count += 1;
            if began.elapsed() > slowest.0 {
                slowest = (began.elapsed(), data);
            }
        }
        println!(
            "{name}: {count} inputs, the slowest {:?}: {:?}",
            slowest.0,
            String::from_utf8_lossy(&slowest.1)
        );
    }
}

#[test]
fn every_target_has_seeds_and_a_fuzz_target() {
    let text = |file: &str| {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(file);
        fs::read_to_string(file).expect("a file of fuzz/")
    };
    let (table, manifest) = (text("README.md"), text("Cargo.toml"));
    for (name, _) in TARGETS {
        assert!(table.contains(&format!("| `{name}` |")), "fuzz/README.md does not say what {name} reads");
        assert!(manifest.contains(&format!("name = \"{name}\"\n")), "fuzz/Cargo.toml has no binary {name}");
        assert!(!seeds(name).is_empty(), "fuzz/seeds/{name} is empty");
        let file = format!("{}/../../fuzz/fuzz_targets/{name}.rs", env!("CARGO_MANIFEST_DIR"));
        assert!(Path::new(&file).exists(), "fuzz/fuzz_targets/{name}.rs is missing");
    }
}

#[test]
fn no_seed_and_no_small_change_of_one_breaks_a_parser() {
    for (name, target) in TARGETS {
        let mut numbers = Numbers(name.len() as u64);
        for seed in seeds(name) {
            target(&seed);
            for _ in 0..20 {
                let data = mutate(&seed, &mut numbers);
                println!("{name}: {:?}", String::from_utf8_lossy(&data));
                target(&data);
            }
        }
    }
}
