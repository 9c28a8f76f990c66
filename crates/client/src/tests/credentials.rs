use std::io::{Read, Write};
use std::path::PathBuf;

use super::*;
use crate::config::{Exec, Interactive};

fn authorization(credentials: &Credentials) -> String {
    let mut headers = HeaderMap::new();
    credentials.snapshot().sign(&mut headers);
    headers.get(AUTHORIZATION).map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default()
}

fn config() -> Config {
    Config::new("https://127.0.0.1:1".parse().unwrap())
}

/// A plugin that is a script of the shell.
fn script(text: &str) -> Exec {
    Exec {
        command: PathBuf::from("sh"),
        args: vec!["-c".to_owned(), text.to_owned()],
        env: vec![],
        api_version: "client.authentication.k8s.io/v1".to_owned(),
        interactive: Interactive::Never,
        install_hint: None,
        cluster: None,
    }
}

fn credential(status: &str) -> String {
    format!(r#"{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{status}}}"#)
}

fn with_plugin(exec: Exec) -> Config {
    let mut config = config();
    config.user.exec = Some(exec);
    config
}

#[tokio::test(start_paused = true)]
async fn a_token_file_is_read_again_each_minute_and_may_disappear() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "first").unwrap();
    let mut config = config();
    config.user.token_file = Some(file.path().to_owned());
    let credentials = Credentials::new(config).await.unwrap();
    assert_eq!(authorization(&credentials), "Bearer first");

    std::fs::write(file.path(), "second\n").unwrap();
    assert_eq!(authorization(&credentials), "Bearer first");
    tokio::time::advance(token_file::MAX_AGE).await;
    assert_eq!(authorization(&credentials), "Bearer second");

    file.close().unwrap();
    tokio::time::advance(token_file::MAX_AGE).await;
    assert_eq!(authorization(&credentials), "Bearer second");
}

#[tokio::test]
async fn a_rejected_token_file_is_read_again_at_once_but_a_fixed_token_is_not() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "old").unwrap();
    let mut config = config();
    config.user.token_file = Some(file.path().to_owned());
    let credentials = Credentials::new(config).await.unwrap();
    std::fs::write(file.path(), "new").unwrap();
    let old = credentials.snapshot();
    assert!(credentials.refused(&old).await);
    assert!(credentials.refused(&old).await, "a second 401 under the old token renews nothing");
    let new = credentials.snapshot();
    assert!(!credentials.refused(&new).await, "a 401 right after a renewal is believed");
    assert_eq!((new.generation, new.tls_generation), (1, 0), "connections do not depend on tokens");
    assert_eq!(authorization(&credentials), "Bearer new");

    let mut config = self::config();
    config.user.token = Some("fixed".to_owned());
    let credentials = Credentials::new(config).await.unwrap();
    assert_eq!(authorization(&credentials), "Bearer fixed");
    assert!(!credentials.refused(&credentials.snapshot()).await);
}

/// A client certificate in files.
struct Certificate(tempfile::TempDir);

impl Certificate {
    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn issue(&self) -> rustls::pki_types::CertificateDer<'static> {
        self.issue_until(4096)
    }

    /// The last year in which it is valid.
    fn issue_until(&self, year: i32) -> rustls::pki_types::CertificateDer<'static> {
        let mut params = rcgen::CertificateParams::new(["robot".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 12, 31);
        let key = rcgen::KeyPair::generate().unwrap();
        let issued = params.self_signed(&key).unwrap();
        std::fs::write(self.file("tls.crt"), issued.pem()).unwrap();
        std::fs::write(self.file("tls.key"), key.serialize_pem()).unwrap();
        issued.der().clone()
    }

    async fn credentials(&self) -> Credentials {
        let (certificate, key) = (Pem::File(self.file("tls.crt")), Pem::File(self.file("tls.key")));
        let mut config = config();
        config.user.certificate = Some(CertificateAndKey { certificate, key });
        Credentials::new(config).await.unwrap()
    }
}

fn shown(snapshot: &Snapshot) -> rustls::pki_types::CertificateDer<'static> {
    let resolver = &snapshot.tls.client_auth_cert_resolver;
    resolver.resolve(&[], &[rustls::SignatureScheme::ECDSA_NISTP256_SHA256]).unwrap().cert[0].clone()
}

#[tokio::test]
async fn an_expired_client_certificate_is_read_again_after_the_servers_401() {
    let certificate = Certificate(tempfile::tempdir().unwrap());
    let expired = certificate.issue();
    let credentials = certificate.credentials().await;
    assert_eq!(shown(&credentials.snapshot()), expired);
    let fresh = certificate.issue();
    assert!(credentials.refused(&credentials.snapshot()).await);
    let snapshot = credentials.snapshot();
    assert_eq!(shown(&snapshot), fresh);
    assert_eq!(snapshot.tls_generation, 1, "connections with the old certificate are not used");
}

/// A server that asks for certificates in TLS sends no 401: it refuses the connection.
#[tokio::test(start_paused = true)]
async fn an_expired_client_certificate_is_read_again_every_ten_seconds() {
    let certificate = Certificate(tempfile::tempdir().unwrap());
    let expired = certificate.issue_until(2020);
    let credentials = certificate.credentials().await;
    let problem = credentials.snapshot().problem_with_certificate();
    assert_eq!(problem.as_deref(), Some("expired at 2020-12-31T00:00:00Z"));
    let fresh = certificate.issue();
    assert_eq!(shown(&credentials.current().await.unwrap()), expired, "it is too early to look");
    tokio::time::advance(INVALID_CERTIFICATE_AGE).await;
    assert_eq!(shown(&credentials.current().await.unwrap()), fresh);
    assert_eq!(credentials.snapshot().problem_with_certificate(), None);
    certificate.issue();
    tokio::time::advance(INVALID_CERTIFICATE_AGE).await;
    assert_eq!(shown(&credentials.current().await.unwrap()), fresh, "this one is valid");
}

#[tokio::test(start_paused = true)]
async fn a_client_certificate_is_read_again_every_five_minutes() {
    let certificate = Certificate(tempfile::tempdir().unwrap());
    let first = certificate.issue();
    let credentials = certificate.credentials().await;
    tokio::time::advance(CERTIFICATE_AGE).await;
    assert_eq!(credentials.current().await.unwrap().generation, 0, "it is the same");
    let second = certificate.issue();
    assert_eq!(shown(&credentials.current().await.unwrap()), first, "it is too early to look");
    tokio::time::advance(CERTIFICATE_AGE).await;
    assert_eq!(shown(&credentials.current().await.unwrap()), second);

    std::fs::write(certificate.file("tls.crt"), "half of it").unwrap();
    tokio::time::advance(CERTIFICATE_AGE).await;
    assert_eq!(shown(&credentials.current().await.unwrap()), second, "a broken one is not used");
    let third = certificate.issue();
    assert!(credentials.refused(&credentials.snapshot()).await);
    tokio::time::advance(CERTIFICATE_AGE).await;
    let last = credentials.current().await.unwrap();
    assert_eq!(
        (shown(&last), last.generation),
        (third, 2),
        "it was renewed after the 401, and not once more"
    );
}

#[tokio::test]
async fn passwords_and_impersonation_are_sent_in_headers() {
    let mut config = config();
    config.user.basic = Some(("jane".to_owned(), "pass:word".to_owned()));
    config.user.impersonate = Some(Impersonate {
        user: "joe".to_owned(),
        uid: Some("17".to_owned()),
        groups: vec!["a".to_owned(), "b".to_owned()],
        extra: vec![("Example.com/Scopes %".to_owned(), vec!["x".to_owned(), "y".to_owned()])],
    });
    let mut headers = HeaderMap::new();
    Credentials::new(config).await.unwrap().snapshot().sign(&mut headers);
    let mut sent: Vec<String> =
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    sent.sort();
    let want = [
        "authorization: Basic amFuZTpwYXNzOndvcmQ=",
        "impersonate-extra-example.com%2fscopes%20%25: x",
        "impersonate-extra-example.com%2fscopes%20%25: y",
        "impersonate-group: a",
        "impersonate-group: b",
        "impersonate-uid: 17",
        "impersonate-user: joe",
    ];
    assert_eq!(sent, want);
}

#[tokio::test]
async fn a_server_without_tls_needs_no_certificate_authority() {
    let config = Config::new("http://127.0.0.1:1".parse().unwrap());
    assert!(Credentials::new(config).await.is_ok());
}

/// Prints `t1` the first time, then `t2`, and so on.
fn counting(dir: &std::path::Path, expires: &str) -> Exec {
    let count = dir.join("count");
    let status = credential(&format!(r#"{{"token":"t'$n'"{expires}}}"#));
    script(&format!("echo x >> {0}; n=$(wc -l < {0} | tr -d ' '); echo '{status}'", count.display()))
}

#[tokio::test]
async fn a_plugin_is_asked_once_and_again_after_a_401() {
    let dir = tempfile::tempdir().unwrap();
    let credentials = Credentials::new(with_plugin(counting(dir.path(), ""))).await.unwrap();
    for _ in 0..3 {
        assert!(credentials.current().await.is_ok());
    }
    assert_eq!(authorization(&credentials), "Bearer t1");
    assert!(credentials.refused(&credentials.snapshot()).await);
    assert_eq!(authorization(&credentials), "Bearer t2");
}

#[tokio::test]
async fn expired_credentials_are_replaced_before_a_request_and_not_in_a_hot_loop() {
    let dir = tempfile::tempdir().unwrap();
    let expires = r#","expirationTimestamp":"2020-01-01T00:00:00Z""#;
    let credentials = Credentials::new(with_plugin(counting(dir.path(), expires))).await.unwrap();
    assert_eq!(authorization(&credentials), "Bearer t1");
    for _ in 0..20 {
        assert!(credentials.current().await.is_ok());
    }
    assert_eq!(
        authorization(&credentials),
        "Bearer t2",
        "the plugin gives expired credentials, and is asked no faster"
    );
    tokio::time::pause();
    tokio::time::advance(RENEWAL_PAUSE).await;
    tokio::time::resume();
    assert!(credentials.current().await.is_ok());
    assert_eq!(authorization(&credentials), "Bearer t3");
}

/// The elector's requests have five seconds, and two of them decide about the lease.
#[tokio::test]
async fn credentials_are_renewed_before_they_expire_and_nobody_waits() {
    let (credentials, mut hears, mut tells, _dir) = slow_from_the_second_time(&in_seconds(1000)).await;
    let later = async |seconds| {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(seconds)).await;
        tokio::time::resume();
    };
    later(700).await;
    credentials.current().await.unwrap();
    assert!(credentials.renewal.try_lock().is_ok(), "it is too early");
    later(110).await;
    for _ in 0..20 {
        tokio::time::timeout(Duration::from_secs(20), credentials.current()).await.expect("at once").unwrap();
    }
    assert!(credentials.renewal.try_lock().is_err(), "a renewal has begun");
    let is_started = tokio::task::spawn_blocking(move || hears.read_exact(&mut [0; 2]));
    is_started.await.unwrap().unwrap();
    assert_eq!(authorization(&credentials), "Bearer t1");
    tells.write_all(b"x\n").unwrap();
    drop(credentials.renewal.lock().await);
    assert_eq!(authorization(&credentials), "Bearer t2");
}

/// A time on the wall clock, in RFC 3339's form.
fn in_seconds(seconds: i64) -> String {
    let time = flyball_api::Timestamp::now() + std::time::Duration::from_secs(seconds.unsigned_abs());
    flyball_api::time::format_micros(time)
}

#[tokio::test]
async fn a_plugin_that_is_slower_than_a_request_is_not_started_again_by_the_next() {
    let (credentials, mut hears, mut tells, _dir) = slow_from_the_second_time("2020-01-01T00:00:00Z").await;
    let is_started = tokio::task::spawn_blocking(move || hears.read_exact(&mut [0; 2]));
    tokio::select! {
        _ = credentials.current() => panic!("the plugin waits"),
        started = is_started => started.unwrap().unwrap(),
    }
    // The request has timed out. The plugin finishes all the same, and the next request uses what it gives.
    tells.write_all(b"x\n").unwrap();
    let next = tokio::time::timeout(Duration::from_secs(30), credentials.current()).await;
    assert!(next.expect("the plugin was not started again").is_ok());
    assert_eq!(authorization(&credentials), "Bearer t2");
}

/// A plugin that gives `t1`, `t2`, … From the second time, it says when it has started, and waits until it is told to go on.
async fn slow_from_the_second_time(
    expires: &str,
) -> (Credentials, std::fs::File, std::fs::File, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let [count, started, go] = ["count", "started", "go"].map(|name| dir.path().join(name));
    for pipe in [&started, &go] {
        assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
    }
    // Open for both, so that neither side waits for the other to open it.
    let open = |pipe: &PathBuf| std::fs::File::options().read(true).write(true).open(pipe).unwrap();
    let (hears, tells) = (open(&started), open(&go));
    let status = credential(&format!(r#"{{"token":"t'$n'","expirationTimestamp":"{expires}"}}"#));
    let text = format!(
        "echo x >> {0}; n=$(wc -l < {0} | tr -d ' '); [ $n = 1 ] || {{ echo x > {1}; read x < {2}; }}; echo '{status}'",
        count.display(),
        started.display(),
        go.display()
    );
    (Credentials::new(with_plugin(script(&text))).await.unwrap(), hears, tells, dir)
}

#[tokio::test]
async fn a_plugin_that_fails_later_fails_the_requests() {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("mark");
    let once = credential(r#"{"token":"t","expirationTimestamp":"2020-01-01T00:00:00Z"}"#);
    let text = format!("[ -e {0} ] && exit 3; touch {0}; echo '{once}'", mark.display());
    let credentials = Credentials::new(with_plugin(script(&text))).await.unwrap();
    for _ in 0..2 {
        let said = credentials.current().await.err().unwrap().to_string();
        assert!(said.contains("credential plugin \"sh\": it ended with exit status: 3"), "{said}");
    }
}

#[tokio::test]
async fn a_plugin_may_give_a_certificate() {
    let issued = rcgen::generate_simple_self_signed(["robot".to_owned()]).unwrap();
    let pem = |text: String| text.replace('\n', "\\n");
    let status = format!(
        r#"{{"clientCertificateData":"{}","clientKeyData":"{}"}}"#,
        pem(issued.cert.pem()),
        pem(issued.signing_key.serialize_pem())
    );
    let mut exec = script(&format!("printf '%s' '{}'", credential(&status)));
    exec.command = PathBuf::from("bash");
    let credentials = Credentials::new(with_plugin(exec)).await.unwrap();
    let resolver = &credentials.snapshot().tls.client_auth_cert_resolver;
    let shown = resolver.resolve(&[], &[rustls::SignatureScheme::ECDSA_NISTP256_SHA256]).unwrap();
    assert_eq!(shown.cert[0], *issued.cert.der());
    assert_eq!(authorization(&credentials), "");
}

#[tokio::test]
async fn a_plugin_is_told_what_it_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let seen = dir.path().join("seen");
    let text = format!(
        "echo \"$KUBERNETES_EXEC_INFO$N\" > {}; echo '{}'",
        seen.display(),
        credential(r#"{"token":"t"}"#)
    );
    let mut exec = script(&text);
    exec.env = vec![("N".to_owned(), "own".to_owned())];
    exec.cluster = Some(serde_json::json!({"server": "https://x"}));
    Credentials::new(with_plugin(exec)).await.unwrap();
    let seen = std::fs::read_to_string(seen).unwrap();
    let info: serde_json::Value = serde_json::from_str(seen.trim().strip_suffix("own").unwrap()).unwrap();
    let want = serde_json::json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "spec": {"interactive": false, "cluster": {"server": "https://x"}},
    });
    assert_eq!(info, want);
}

#[tokio::test]
async fn a_token_in_the_kubeconfig_spares_the_plugin() {
    let mut config = with_plugin(script("exit 1"));
    config.user.token = Some("own".to_owned());
    assert_eq!(authorization(&Credentials::new(config).await.unwrap()), "Bearer own");
}

/// All texts of an error.
fn words(error: &BoxError) -> String {
    format!("{} {error:?} {error:#?}", Chain(&**error))
}

#[tokio::test]
async fn nothing_that_a_plugin_prints_is_repeated() {
    #[rustfmt::skip]
    let table = [
        // case                    stdout                                                        exit  error
        ("fails",                  credential(r#"{"token":"s3cret"}"#),                          1, "it ended with exit status: 1; what it prints is not logged, since it may be secret: run the command by hand"),
        ("not JSON",               "s3cret: [".to_owned(),                                       0, "its output is not an ExecCredential"),
        ("another type",           credential(r#""s3cret""#),                                    0, "its output is not an ExecCredential"),
        ("another version",        credential("{}").replace("/v1", "/s3cret"),                   0, "its output is not an ExecCredential of client.authentication.k8s.io/v1"),
        ("a time that is none",    credential(r#"{"token":"x","expirationTimestamp":"s3cret"}"#), 0, "the time at which its credentials expire is not in RFC 3339's form"),
        ("nothing",                String::new(),                                                0, "its output is not an ExecCredential"),
        ("no status",              credential("null"),                                           0, "its output has no status"),
        ("an empty status",        credential("{}"),                                             0, "its output has neither a token nor a certificate"),
        ("half a certificate",     credential(r#"{"clientKeyData":"s3cret"}"#),                  0, "its output has a certificate without its key"),
    ];
    for (case, stdout, exit, want) in table {
        let text = format!("echo s3cret >&2; echo '{stdout}'; exit {exit}");
        let said = words(&Credentials::new(with_plugin(script(&text))).await.err().unwrap());
        assert!(said.contains(&format!("credential plugin \"sh\": {want}")), "{case}: {said}");
        assert!(!said.contains("s3cret"), "{case}: {said}");
    }
    let two_lines = credential(r#"{"token":"s3cret\\nx"}"#);
    let said =
        words(&Credentials::new(with_plugin(script(&format!("echo '{two_lines}'")))).await.err().unwrap());
    assert!(said.contains("the token does not fit into a header") && !said.contains("s3cret"), "{said}");
}

#[tokio::test]
async fn a_plugin_that_is_not_there_is_named_with_what_to_do() {
    let mut exec = script("");
    exec.command = PathBuf::from("no-such-plugin");
    exec.install_hint = Some("Install it.".to_owned());
    let said = Chain(&*Credentials::new(with_plugin(exec)).await.err().unwrap()).to_string();
    assert!(said.contains("\"no-such-plugin\": it cannot be started: No such file"), "{said}");
    assert!(said.ends_with("Install it."), "{said}");
}

#[tokio::test]
async fn a_plugin_that_prints_too_much_does_not_fill_the_memory() {
    let exec = script("yes s3cret | head -c 3000000");
    let said = words(&Credentials::new(with_plugin(exec)).await.err().unwrap());
    assert!(said.contains("its output is not an ExecCredential") && !said.contains("s3cret"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_hangs_is_ended() {
    let said =
        Chain(&*Credentials::new(with_plugin(script("exec sleep 1000"))).await.err().unwrap()).to_string();
    assert!(said.contains("it did not end within 60 seconds"), "{said}");
}

#[tokio::test]
async fn a_plugin_that_needs_a_person_is_not_started_without_a_terminal() {
    use std::io::IsTerminal;
    if std::io::stdin().is_terminal() {
        println!("SKIPPED a_plugin_that_needs_a_person: standard input is a terminal");
        return;
    }
    let mut exec = script("exit 9");
    exec.interactive = Interactive::Always;
    let said = Chain(&*Credentials::new(with_plugin(exec)).await.err().unwrap()).to_string();
    assert!(said.contains("standard input is not a terminal"), "{said}");
}

#[tokio::test]
async fn credentials_that_cannot_be_read_are_named() {
    let mut config = config();
    config.user.token_file = Some("no/such/token".into());
    let error = Credentials::new(config).await.err().unwrap();
    assert!(Chain(&*error).to_string().contains("no/such/token"), "{error}");
}
