//! User agents. If a write has no field manager, the API server uses the user agent's first word. It is upstream's, so that
//! fields keep their managers.

/// Upstream's `kube-controller-manager/v1.36.4 (linux/amd64) kubernetes/0123abc/replicaset-controller`.
///
/// `suffix` is the controller's client name; with service-account credentials upstream puts the whole
/// `system:serviceaccount:kube-system:…` there. Empty: none.
pub fn user_agent(version: &str, commit: &str, suffix: &str) -> String {
    user_agent_of("kube-controller-manager", version, commit, suffix)
}

/// The same for another component.
pub fn user_agent_of(component: &str, version: &str, commit: &str, suffix: &str) -> String {
    // Upstream: client-go rest/config.go, buildUserAgent: no pre-release part, seven digits of the commit.
    let version = version.split('-').next().filter(|v| !v.is_empty()).unwrap_or("unknown");
    let commit: String = commit.chars().take(7).collect();
    let commit = if commit.is_empty() { "unknown" } else { &commit };
    let mut text =
        format!("{component}/{version} ({}/{}) kubernetes/{commit}", std::env::consts::OS, go_arch());
    if !suffix.is_empty() {
        text.push('/');
        text.push_str(suffix);
    }
    text
}

fn go_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
        "powerpc64" => "ppc64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_upstreams() {
        let platform = format!("({}/{})", std::env::consts::OS, go_arch());
        #[rustfmt::skip]
        let table = [
            (("v1.36.4", "0123456789abcdef", "shared-informers"), format!("kube-controller-manager/v1.36.4 {platform} kubernetes/0123456/shared-informers")),
            (("v1.37.0-alpha.1", "0123", ""),                     format!("kube-controller-manager/v1.37.0 {platform} kubernetes/0123")),
            (("", "", ""),                                        format!("kube-controller-manager/unknown {platform} kubernetes/unknown")),
        ];
        for ((version, commit, suffix), want) in table {
            assert_eq!(user_agent(version, commit, suffix), want);
        }
    }
}
