//! Authentication of the live page in a process that has no user accounts: a link that works once, exchanged for a cookie.

use std::collections::VecDeque;

use flyball_tls::provider;
use http::{HeaderMap, header};
use parking_lot::Mutex;

/// Links that have not been used, and browsers that have used one. Beyond that, the oldest ends.
const LINKS: usize = 16;
const SESSIONS: usize = 32;

type Secret = [u8; 32];

#[derive(Default)]
pub(crate) struct Sessions {
    links: Mutex<VecDeque<Secret>>,
    sessions: Mutex<VecDeque<Secret>>,
}

impl Sessions {
    /// The secret of a new link; `None` if the system has no randomness.
    pub(crate) fn link(&self) -> Option<String> {
        let secret = random()?;
        keep(&mut self.links.lock(), secret, LINKS);
        Some(hex(&secret))
    }

    /// Uses a link, and returns the secret of the new session. A link works once.
    pub(crate) fn enter(&self, link: &str) -> Option<String> {
        let given = parse(link)?;
        let mut links = self.links.lock();
        let at = links.iter().position(|known| same(known, &given))?;
        let secret = random()?;
        links.remove(at);
        keep(&mut self.sessions.lock(), secret, SESSIONS);
        Some(hex(&secret))
    }

    /// Whether one of the cookies is that of a session.
    pub(crate) fn knows(&self, headers: &HeaderMap, cookie: &str) -> bool {
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let given: Vec<Secret> =
            pairs.filter(|(name, _)| *name == cookie).filter_map(|(_, value)| parse(value)).collect();
        let sessions = self.sessions.lock();
        given.iter().any(|given| sessions.iter().any(|known| same(known, given)))
    }
}

fn keep(known: &mut VecDeque<Secret>, secret: Secret, most: usize) {
    if known.len() == most {
        known.pop_front();
    }
    known.push_back(secret);
}

fn random() -> Option<Secret> {
    let mut secret = Secret::default();
    provider().secure_random.fill(&mut secret).ok()?;
    Some(secret)
}

fn hex(secret: &Secret) -> String {
    secret.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse(text: &str) -> Option<Secret> {
    let mut secret = Secret::default();
    if text.len() != 2 * secret.len() || !text.is_ascii() {
        return None;
    }
    for (at, byte) in secret.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(secret)
}

/// Takes as long for a secret that is nearly right.
fn same(one: &Secret, other: &Secret) -> bool {
    one.iter().zip(other).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookie(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::COOKIE, value.parse().unwrap())])
    }

    #[test]
    fn a_link_works_once() {
        let sessions = Sessions::default();
        let (link, other) = (sessions.link().unwrap(), sessions.link().unwrap());
        assert_ne!(link, other);
        let session = sessions.enter(&link).unwrap();
        assert_eq!(sessions.enter(&link), None);
        assert!(sessions.knows(&cookie(&format!("a=b; ui={session}; c")), "ui"));
        assert!(!sessions.knows(&cookie(&format!("other={session}")), "ui"));
        assert!(!sessions.knows(&cookie(&format!("ui={link}")), "ui"), "the link is not the session");
        assert!(!sessions.knows(&HeaderMap::new(), "ui"));
        for wrong in ["", "00", &"0".repeat(64), &"é".repeat(32), &"+1".repeat(32)] {
            assert_eq!(sessions.enter(wrong), None, "{wrong:?}");
        }
        assert!(sessions.enter(&other).is_some());
    }

    #[test]
    fn unused_links_and_sessions_are_bounded() {
        let sessions = Sessions::default();
        let first = sessions.link().unwrap();
        let session = sessions.enter(&sessions.link().unwrap()).unwrap();
        for _ in 0..LINKS {
            sessions.link().unwrap();
        }
        assert_eq!(sessions.enter(&first), None);
        for _ in 0..SESSIONS {
            sessions.enter(&sessions.link().unwrap()).unwrap();
        }
        assert!(!sessions.knows(&cookie(&format!("ui={session}")), "ui"));
    }
}
