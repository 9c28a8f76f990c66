//! Certificates and keys of the server, and the options that name them.

use super::*;

#[test]
fn digests_are_sha_256() {
    let hex: String = certs::sha256(b"abc").unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

proptest::proptest! {
    #[test]
    fn no_request_panics(path in "/[a-z/]{0,12}", query in "[a-z%+&=0-9]{0,24}", accept in "[a-z0-9*/;=,. ]{0,40}") {
        let target = format!("{path}?{query}");
        if let Ok(request) = Request::get(&target).header("accept", &accept).body(()) {
            routes::route(&pages(), &flyball_listen::SeldomEach::default(), &request.into_parts().0, &path, &Bytes::new());
        }
        for page in ["/healthz", "/flagz", "/statusz", "/debug/decisions", "/debug/waiting", "/debug/flags/v"] {
            let target = format!("{page}?{query}");
            if let Ok(request) = Request::put(&target).header("accept", &accept).body(()) {
                routes::route(&pages(), &flyball_listen::SeldomEach::default(), &request.into_parts().0, page, &Bytes::from(query.clone()));
            }
        }
    }
}

#[test]
fn invalid_options_are_named_in_the_error() {
    #[rustfmt::skip]
    let table = [
        (ServingOptions { min_version: "TLS1".into(), ..Default::default() },                "--tls-min-version"),
        (ServingOptions { cipher_suites: vec!["ROT13".into()], ..Default::default() },       "\"ROT13\""),
        (ServingOptions { cipher_suites: vec!["TLS_RSA_WITH_RC4_128_SHA".into()], ..Default::default() }, "none of those given can be used"),
        (ServingOptions { cert_file: "x.crt".into(), ..Default::default() },                 "--tls-private-key-file"),
    ];
    for (options, want) in table {
        let problems = tls_problems(&options).join("; ");
        assert!(problems.contains(want), "{problems}");
    }
    let notices = |options: ServingOptions| tls_notices(&options).join("; ");
    let old = ServingOptions { min_version: "VersionTLS11".into(), ..Default::default() };
    assert!(notices(old).contains("--tls-min-version=VersionTLS11 means VersionTLS12"));
    assert_eq!(notices(ServingOptions { min_version: "VersionTLS12".into(), ..Default::default() }), "");
    let names =
        ["TLS_RSA_WITH_RC4_128_SHA", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"].map(str::to_owned).to_vec();
    let suites =
        ServingOptions { cipher_suites: names, curve_preferences: vec![25, 23], ..Default::default() };
    assert_eq!(
        notices(suites),
        "--tls-cipher-suites names suites that are never used here: TLS_RSA_WITH_RC4_128_SHA; \
         --tls-curve-preferences names groups that are never used here: P-521"
    );
    let missing =
        ServingOptions { cert_file: "none.crt".into(), key_file: "none.key".into(), ..Default::default() };
    assert!(tls::server_config(&missing).unwrap_err().contains("none.crt"));
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/keys");
    let file = |end: &str| format!("{keys}/small.{end}");
    let options =
        ServingOptions { cert_file: file("crt"), key_file: file("key"), ..ServingOptions::default() };
    let problem = tls::server_config(&options).unwrap_err();
    for want in [file("key").as_str(), "it has 1024 bits", flyball_tls::KEYS] {
        assert!(problem.contains(want), "{problem}");
    }
    let good =
        ["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_RSA_WITH_RC4_128_SHA"].map(str::to_owned).to_vec();
    assert!(tls_problems(&ServingOptions { cipher_suites: good, ..Default::default() }).is_empty());
}

/// One request over TLS; what protocol was spoken, and the answer's code.
async fn fetch(
    address: std::net::SocketAddr,
    config: rustls::ClientConfig,
) -> Result<(Vec<u8>, u16), String> {
    use hyper_util::rt::{TokioExecutor, TokioIo};
    let stream = tokio::net::TcpStream::connect(address).await.map_err(|e| e.to_string())?;
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let stream = stream.map_err(|e| e.to_string())?;
    let protocol = stream.get_ref().1.alpn_protocol().unwrap_or_default().to_vec();
    let request = Request::get("https://localhost/healthz").body(Full::<Bytes>::default()).unwrap();
    let (mut send, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .map_err(|e| e.to_string())?;
    tokio::spawn(connection);
    let answer = send.send_request(request).await.map_err(|e| e.to_string())?;
    Ok((protocol, answer.status().as_u16()))
}

#[tokio::test]
async fn large_keys_are_served_and_accepted_from_clients() {
    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject as _;
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../keys/testdata");
    let file = |name: &str| format!("{data}/{name}");
    let read = |name: &str| std::fs::read(file(name)).unwrap();
    let bundle = [read("ca-p521.crt"), read("ca-rsa16384.crt")].concat();
    let provider = Arc::new(flyball_tls::provider());
    for (served, shown, want) in [
        ("p521", "rsa8192", Ok((b"h2".to_vec(), 200))),
        ("rsa8192", "p521", Ok((b"h2".to_vec(), 200))),
        ("p521", "rsa16384", Err(())),
    ] {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let options = ServingOptions {
            bind_address: free.ip(),
            port: free.port().into(),
            cert_file: file(&format!("{served}.crt")),
            key_file: file(&format!("{served}.key")),
            ..ServingOptions::default()
        };
        let bench = Bench::new(pages(), AuthenticationOptions::default());
        let listening = bench.server.listen(&options).unwrap().unwrap();
        let mut config = rustls::ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(certs::roots(&bundle, "the bundle").unwrap())
            .with_client_auth_cert(
                certs::certificates(&read(&format!("{shown}.crt")), shown).unwrap(),
                PrivateKeyDer::from_pem_slice(&read(&format!("{shown}.key"))).unwrap(),
            )
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let got = fetch(listening.address, config).await;
        assert_eq!(got.clone().map_err(|_| ()), want, "{served} to {shown}: {got:?}");
    }
    // A certificate that one of these authorities has signed is its user's.
    let authority = subject::authority(certs::roots(&bundle, "the bundle").unwrap()).unwrap();
    for name in ["p521.crt", "rsa8192.crt"] {
        let certificates = certs::certificates(&read(name), name).unwrap();
        let peer = Peer { certificates };
        let subject = subject::verified(&authority, &peer).unwrap().unwrap();
        assert_eq!(subject.name, "system:kube-controller-manager", "{name}");
    }
}

#[tokio::test]
async fn the_self_signed_certificate_serves_localhost_and_is_kept_in_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = ServingOptions {
        bind_address: free.ip(),
        port: free.port().into(),
        cert_dir: dir.path().display().to_string(),
        ..ServingOptions::default()
    };
    let bench = Bench::new(pages(), AuthenticationOptions::default());
    let listening = bench.server.listen(&options).unwrap().unwrap();
    let pem = std::fs::read(dir.path().join("kube-controller-manager.crt")).unwrap();
    let roots = certs::roots(&pem, "the pair").unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = |version| {
        let builder = rustls::ClientConfig::builder_with_provider(provider.clone());
        let mut config = builder
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        config
    };
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        assert_eq!(fetch(listening.address, client(version)).await, Ok((b"h2".to_vec(), 200)));
    }
    // Another pair in its place is served without a restart.
    let (cert, key) = certs::self_signed().unwrap();
    std::fs::write(dir.path().join("kube-controller-manager.key"), &key).unwrap();
    std::fs::write(dir.path().join("kube-controller-manager.crt"), &cert).unwrap();
    let mut renewed = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(certs::roots(cert.as_bytes(), "the new pair").unwrap())
        .with_no_client_auth();
    renewed.alpn_protocols = vec![b"h2".to_vec()];
    let served = async {
        while fetch(listening.address, renewed.clone()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), served).await.expect("the new pair is served");
    // The port is taken: the error says where and what to change.
    let again = Bench::new(pages(), AuthenticationOptions::default()).server.listen(&options);
    let message = again.unwrap_err().to_string();
    assert!(
        message.contains(&listening.address.to_string()) && message.contains("--secure-port"),
        "{message}"
    );
    drop(listening);
    let none = ServingOptions { port: 0, ..options };
    assert!(Bench::new(pages(), AuthenticationOptions::default()).server.listen(&none).unwrap().is_none());
}
