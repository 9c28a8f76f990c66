//! Whether a program may be shipped: for the right processor, and static.

use anyhow::{Context as _, ensure};

use super::Architecture;

/// Program header of the dynamic loader's name; a static program has none.
const PT_INTERP: u32 = 3;
const EM_X86_64: u16 = 62;
const EM_AARCH64: u16 = 183;

pub(super) fn check(program: &[u8], architecture: Architecture) -> anyhow::Result<()> {
    ensure!(program.starts_with(b"\x7fELF\x02\x01"), "it is not a 64-bit little-endian ELF program");
    let expected = match architecture {
        Architecture::Amd64 => EM_X86_64,
        Architecture::Arm64 => EM_AARCH64,
    };
    let machine = u16::from_le_bytes(bytes(program, 18)?);
    ensure!(machine == expected, "its processor is {machine}, not {expected} ({})", architecture.name());
    let headers = usize::try_from(u64::from_le_bytes(bytes(program, 32)?)).context("program headers")?;
    let size = usize::from(u16::from_le_bytes(bytes(program, 54)?));
    let count = usize::from(u16::from_le_bytes(bytes(program, 56)?));
    for n in 0..count {
        let kind = u32::from_le_bytes(bytes(program, headers.saturating_add(n * size))?);
        ensure!(kind != PT_INTERP, "it needs the dynamic loader of a distribution");
    }
    Ok(())
}

fn bytes<const N: usize>(program: &[u8], at: usize) -> anyhow::Result<[u8; N]> {
    let found = program.get(at..).and_then(|rest| rest.first_chunk());
    found.copied().with_context(|| format!("it ends before byte {at}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with one program header.
    fn program(machine: u16, header: u32) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
        bytes[54..56].copy_from_slice(&56_u16.to_le_bytes());
        bytes[56..58].copy_from_slice(&1_u16.to_le_bytes());
        bytes.extend(header.to_le_bytes());
        bytes
    }

    #[test]
    fn only_static_programs_for_the_right_processor() {
        let check = |bytes: &[u8], architecture| check(bytes, architecture).map_err(|e| e.to_string());
        assert_eq!(check(&program(EM_X86_64, 1), Architecture::Amd64), Ok(()));
        assert_eq!(check(&program(EM_AARCH64, 1), Architecture::Arm64), Ok(()));
        let wrong = check(&program(EM_X86_64, 1), Architecture::Arm64);
        assert_eq!(wrong, Err("its processor is 62, not 183 (arm64)".to_owned()));
        let dynamic = check(&program(EM_X86_64, PT_INTERP), Architecture::Amd64);
        assert_eq!(dynamic, Err("it needs the dynamic loader of a distribution".to_owned()));
        let cut = check(&program(EM_X86_64, 1)[..66], Architecture::Amd64);
        assert_eq!(cut, Err("it ends before byte 64".to_owned()));
        let script = check(b"#!/bin/sh", Architecture::Amd64);
        assert_eq!(script, Err("it is not a 64-bit little-endian ELF program".to_owned()));
    }
}
