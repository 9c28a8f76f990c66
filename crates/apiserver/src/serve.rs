//! The HTTPS server over the service: HTTP/1.1 and HTTP/2, client certificates as users. Requests without TLS are told so, unless
//! there is a service for those from this machine.

use std::convert::Infallible;
use std::sync::Arc;

use http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tower::util::BoxCloneService;
use tower::{Service, ServiceExt as _, service_fn};

use crate::http::respond::{self, Body, BoxError};
use crate::pki::Pair;
use crate::registry::User;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A PEM text is not a certificate or key.
    #[error("the serving certificate or its key cannot be read: {0}")]
    Pem(String),
    /// The certificate and the key do not match.
    #[error("the serving certificate cannot be used")]
    Config(#[source] rustls::Error),
    /// The client CA is unusable.
    #[error("the client CA cannot be used: {0}")]
    ClientCa(String),
}

/// Prepares TLS with a serving certificate; clients may present certificates that `client_ca` (PEM) has signed.
pub fn tls(serving: &Pair, client_ca: Option<&str>) -> Result<TlsAcceptor, TlsError> {
    let pem = |error: rustls_pki_types::pem::Error| TlsError::Pem(error.to_string());
    let certs: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(serving.cert.as_bytes()).collect::<Result<_, _>>().map_err(pem)?;
    let key = PrivateKeyDer::from_pem_slice(serving.key.as_bytes()).map_err(pem)?;
    let provider = Arc::new(flyball_tls::provider());
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Config)?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            for cert in CertificateDer::pem_slice_iter(ca.as_bytes()) {
                let cert = cert.map_err(|error| TlsError::ClientCa(error.to_string()))?;
                roots.add(cert).map_err(|error| TlsError::ClientCa(error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|error| TlsError::ClientCa(error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(certs, key).map_err(TlsError::Config)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The first byte of a TLS handshake.
const HANDSHAKE: u8 = 22;

/// Serves connections until `stop` resolves; connections that are open then are dropped. `server` is an [`ApiServer`], or a way
/// to one.
///
/// [`ApiServer`]: crate::ApiServer
pub async fn serve<S>(server: S, listener: TcpListener, tls: TlsAcceptor, stop: impl Future<Output = ()>)
where
    S: Service<Request<Incoming>, Response = Response<Body>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    serve_and_plainly(server, BoxCloneService::new(service_fn(refuse)), listener, tls, stop).await;
}

/// A service for requests without TLS.
pub type Plain = BoxCloneService<Request<Incoming>, Response<Body>, Infallible>;

/// The same, with a service for requests that come from this machine and without TLS. Others without TLS are refused.
pub async fn serve_and_plainly<S>(
    server: S,
    plain: Plain,
    listener: TcpListener,
    tls: TlsAcceptor,
    stop: impl Future<Output = ()>,
) where
    S: Service<Request<Incoming>, Response = Response<Body>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    let connections = flyball_listen::each(listener, move |stream, from| {
        let plain = if from.ip().to_canonical().is_loopback() { Some(plain.clone()) } else { None };
        connection(server.clone(), plain, stream, tls.clone())
    });
    tokio::select! {
        () = stop => {}
        never = connections => match never {},
    }
}

/// The response of Go's server to plain HTTP on a TLS port, so that `curl` shows the problem. Closes the connection.
pub async fn refuse(_: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let mut response = respond::text(400, "Client sent an HTTP request to an HTTPS server.\n");
    response.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
    Ok(response)
}

async fn plainly(plain: Plain, stream: TcpStream) {
    let service = TowerToHyperService::new(plain);
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection without TLS ended");
    }
}

async fn connection<S>(server: S, plain: Option<Plain>, stream: TcpStream, tls: TlsAcceptor)
where
    S: Service<Request<Incoming>, Response = Response<Body>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    let _ = stream.set_nodelay(true);
    let mut first = [HANDSHAKE];
    match stream.peek(&mut first).await {
        Ok(_) if first == [HANDSHAKE] => {}
        Ok(_) => {
            let plain = plain.unwrap_or_else(|| BoxCloneService::new(service_fn(refuse)));
            return plainly(plain, stream).await;
        }
        Err(error) => return tracing::debug!(%error, "connection ended before it began"),
    }
    let stream = match tls.accept(stream).await {
        Ok(stream) => stream,
        Err(error) => {
            tracing::debug!(%error, "TLS handshake failed");
            return;
        }
    };
    let user = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).and_then(user_of);
    let service = server.map_request(move |mut request: Request<Incoming>| {
        if let Some(user) = &user {
            request.extensions_mut().insert(user.clone());
        }
        request
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(1000);
    let served =
        builder.serve_connection_with_upgrades(TokioIo::new(stream), TowerToHyperService::new(service)).await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection ended");
    }
}

/// Common name and organizations of a client certificate.
fn user_of(cert: &CertificateDer<'_>) -> Option<User> {
    let (_, cert) = x509_parser::parse_x509_certificate(cert).ok()?;
    let subject = cert.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups = subject.iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned).collect();
    Some(User { name, groups, ..User::default() })
}
