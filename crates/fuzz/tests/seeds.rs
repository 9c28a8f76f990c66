//! The seeds of `fuzz/seeds` and small changes of them, on every run of the tests. What a fuzzer has found becomes a seed.

use std::fs;
use std::path::Path;

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

/// One to four edits: a byte replaced, removed, inserted, or a piece repeated.
fn mutate(seed: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut data = seed.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(data.len() + 1);
        let end = (at + numbers.below(16)).min(data.len());
        match numbers.below(4) {
            0 if at < data.len() => data[at] = numbers.below(256) as u8,
            1 if at < end => drop(data.drain(at..end)),
            2 => data.insert(at, b"{}[]\",:0-1.eE+*/= ()\n"[numbers.below(21)]),
            _ => {
                let piece = data[at..end].to_vec();
                data.splice(at..at, piece);
            }
        }
    }
    data
}

#[test]
fn every_target_has_seeds_and_a_fuzz_target() {
    for (name, _) in TARGETS {
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
