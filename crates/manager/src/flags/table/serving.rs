//! Flags of the HTTPS server: address, certificates, authentication and authorization.

use crate::flags::{
    Field::{Bool, CertKeys, Duration, Int, Int32List, Ip, List, Text},
    Flag, Section,
};

#[rustfmt::skip]
pub(super) const SECTIONS: &[Section] = &[
    Section { name: "secure serving", flags: &[
        Flag::new("bind-address", Ip(|o| &mut o.serving.bind_address),
            "Address to listen on. An unspecified one (0.0.0.0 or ::) means all interfaces."),
        Flag::new("cert-dir", Text(|o| &mut o.serving.cert_dir),
            "Directory in which a self-signed certificate is kept when none is given. Empty keeps it in memory."),
        Flag::new("disable-http2-serving", Bool(|o| &mut o.serving.disable_http2), "Serve HTTP/1.1 only."),
        Flag::new("http2-max-streams-per-connection", Int(|o| &mut o.serving.http2_max_streams),
            "Requests a client may have under way on one HTTP/2 connection; 0 leaves it to the server."),
        Flag::new("permit-address-sharing", Bool(|o| &mut o.serving.permit_address_sharing),
            "Listen even while connections of an earlier process linger on the address (SO_REUSEADDR)."),
        Flag::new("permit-port-sharing", Bool(|o| &mut o.serving.permit_port_sharing),
            "Let several processes listen on the same address and port (SO_REUSEPORT)."),
        Flag::new("secure-port", Int(|o| &mut o.serving.port), "Port to serve HTTPS on; 0 serves nothing."),
        Flag::new("tls-cert-file", Text(|o| &mut o.serving.cert_file),
            "Serving certificate, followed by its intermediates (PEM). It is read again when it changes. Without it a \
             self-signed certificate is made."),
        Flag::new("tls-cipher-suites", List(|o| &mut o.serving.cipher_suites),
            "TLS 1.2 cipher suites to allow, by IANA name. Only forward-secret AEAD suites are ever used; the suites \
             of TLS 1.3 are not configurable."),
        Flag::new("tls-curve-preferences", Int32List(|o| &mut o.serving.curve_preferences),
            "Key exchange groups to allow, by number: 23 (P-256), 24 (P-384), 29 (X25519). Others of TLS are accepted, but \
             never used. Their order means nothing."),
        Flag::new("tls-min-version", Text(|o| &mut o.serving.min_version),
            "Oldest TLS version to accept: VersionTLS12 or VersionTLS13. The older names are understood and mean 1.2."),
        Flag::new("tls-private-key-file", Text(|o| &mut o.serving.key_file), "Private key of --tls-cert-file (PEM)."),
        Flag::new("tls-sni-cert-key", CertKeys(|o| &mut o.serving.sni_cert_keys),
            "Another certificate and key, for clients that ask for certain names: certificate,key or \
             certificate,key:*.example.com,example.com. Without names those in the certificate count. May be repeated."),
    ]},
    Section { name: "authentication", flags: &[
        Flag::new("authentication-kubeconfig", Text(|o| &mut o.authentication.kubeconfig),
            "Credentials with which bearer tokens are reviewed and the cluster's client CA is read. Without it, \
             callers are known by client certificate (--client-ca-file) or not at all."),
        Flag::new("authentication-skip-lookup", Bool(|o| &mut o.authentication.skip_lookup),
            "Do not read the cluster's client CA from kube-system/extension-apiserver-authentication."),
        Flag::new("authentication-token-webhook-cache-ttl", Duration(|o| &mut o.authentication.token_cache_ttl),
            "How long the review of a bearer token is cached."),
        Flag::new("authentication-tolerate-lookup-failure", Bool(|o| &mut o.authentication.tolerate_lookup_failure),
            "Start even if the cluster's client CA cannot be read; callers may then all be anonymous."),
        Flag::new("client-ca-file", Text(|o| &mut o.authentication.client_ca_file),
            "CA bundle for client certificates. The user is the common name of the certificate."),
        Flag::new("requestheader-allowed-names", List(|o| &mut o.authentication.requestheader_allowed_names),
            "Common names of the front proxies whose headers are believed; empty means any that \
             --requestheader-client-ca-file has signed."),
        Flag::new("requestheader-client-ca-file", Text(|o| &mut o.authentication.requestheader_client_ca_file),
            "CA bundle of front proxies. The headers below are trusted only from them."),
        Flag::new("requestheader-extra-headers-prefix",
            List(|o| &mut o.authentication.requestheader_extra_headers_prefix),
            "Prefixes of the headers that carry further attributes of the user."),
        Flag::new("requestheader-group-headers", List(|o| &mut o.authentication.requestheader_group_headers),
            "Headers that carry the user's groups."),
        Flag::new("requestheader-uid-headers", List(|o| &mut o.authentication.requestheader_uid_headers),
            "Headers that carry the user's UID. Needs the feature gate RemoteRequestHeaderUID."),
        Flag::new("requestheader-username-headers", List(|o| &mut o.authentication.requestheader_username_headers),
            "Headers that carry the user's name."),
    ]},
    Section { name: "authorization", flags: &[
        Flag::new("authorization-always-allow-paths", List(|o| &mut o.authorization.always_allow_paths),
            "Paths that are open to everyone. An entry may end in /* to include everything below."),
        Flag::new("authorization-kubeconfig", Text(|o| &mut o.authorization.kubeconfig),
            "Credentials with which the API server is asked what a caller may do. Without it only the paths above \
             and members of system:masters are let in."),
        Flag::new("authorization-webhook-cache-authorized-ttl", Duration(|o| &mut o.authorization.allow_cache_ttl),
            "How long an approval is cached."),
        Flag::new("authorization-webhook-cache-unauthorized-ttl", Duration(|o| &mut o.authorization.deny_cache_ttl),
            "How long a denial is cached."),
    ]},
];
