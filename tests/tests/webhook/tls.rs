//! Certificates that must not be trusted, and handshakes that fail.

use std::sync::Arc;

use punctual_adapters::webhook::{HttpWebhook, WebhookConfig, WebhookError};
use punctual_core::outcome::Failure;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::server::{Raw, read_request, reset};
use super::{SLACK, answered, bounded, call, config, local, refused, request};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// A certificate authority of the tests' own.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

pub(crate) struct Leaf {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority"))
    }

    pub(crate) fn leaf(&self, name: &str) -> Leaf {
        self.leaf_with(name, |_| {})
    }

    fn leaf_with(&self, name: &str, change: impl Fn(&mut CertificateParams)) -> Leaf {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        change(&mut params);
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        Leaf { certificate: certificate.der().clone(), key: key.into() }
    }

    /// A local client that trusts this authority too.
    pub(crate) fn trusting(&self) -> HttpWebhook {
        let extra_roots = self.0.pem().into_bytes();
        HttpWebhook::new(WebhookConfig { extra_roots, ..config(true) }).expect("a client")
    }
}

pub(crate) fn acceptor(leaf: &Leaf) -> TlsAcceptor {
    acceptor_with(leaf, Vec::new())
}

/// Offers these protocols, the first before the rest; none if empty.
fn acceptor_with(leaf: &Leaf, protocols: Vec<Vec<u8>>) -> TlsAcceptor {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let mut config =
        config.with_no_client_auth().with_single_cert(vec![leaf.certificate.clone()], leaf.key.clone_key()).expect("a server");
    config.alpn_protocols = protocols;
    TlsAcceptor::from(Arc::new(config))
}

pub(crate) async fn serving(leaf: &Leaf) -> Raw {
    serving_with(acceptor(leaf)).await
}

async fn serving_with(accept: TlsAcceptor) -> Raw {
    Raw::start(move |stream, _| {
        let accept = accept.clone();
        async move {
            let Ok(mut stream) = accept.accept(stream).await else { return };
            if read_request(&mut stream).await.is_some() {
                stream.write_all(OK.as_bytes()).await.expect("written");
            }
        }
    })
    .await
}

fn url(server: &Raw) -> String {
    format!("https://localhost:{}/hook", server.address.port())
}

#[tokio::test]
async fn a_trusted_certificate_with_the_right_name_passes() {
    let authority = Authority::new();
    let server = serving(&authority.leaf("localhost")).await;
    assert_eq!(call(&authority.trusting(), &url(&server)).await, answered(200));
}

#[tokio::test]
async fn an_unknown_authority_is_refused() {
    let server = serving(&Authority::new().leaf("localhost")).await;
    assert_eq!(call(&local(), &url(&server)).await, refused("certificate-issuer"));
    assert_eq!(call(&Authority::new().trusting(), &url(&server)).await, refused("certificate-issuer"));
}

#[tokio::test]
async fn a_certificate_that_signs_itself_is_refused() {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate");
    let server = serving(&Leaf { certificate: certificate.der().clone(), key: key.into() }).await;
    assert_eq!(call(&local(), &url(&server)).await, refused("certificate-issuer"));
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let authority = Authority::new();
    let server = serving(&authority.leaf("other.example")).await;
    assert_eq!(call(&authority.trusting(), &url(&server)).await, refused("certificate-name"));
}

#[tokio::test]
async fn a_certificate_of_the_past_is_refused() {
    let authority = Authority::new();
    let leaf = authority.leaf_with("localhost", |params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    let server = serving(&leaf).await;
    assert_eq!(call(&authority.trusting(), &url(&server)).await, refused("certificate-expired"));
}

#[tokio::test]
async fn a_certificate_of_the_future_is_refused() {
    let authority = Authority::new();
    let leaf = authority.leaf_with("localhost", |params| params.not_before = rcgen::date_time_ymd(2090, 1, 1));
    let server = serving(&leaf).await;
    assert_eq!(call(&authority.trusting(), &url(&server)).await, refused("certificate-not-yet-valid"));
}

#[tokio::test]
async fn a_certificate_for_another_purpose_is_refused() {
    let authority = Authority::new();
    let purposes = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let leaf = authority.leaf_with("localhost", |params| params.extended_key_usages.clone_from(&purposes));
    let server = serving(&leaf).await;
    assert_eq!(call(&authority.trusting(), &url(&server)).await, refused("certificate-invalid"));
}

/// The receiver offers HTTP/2 first: it is not spoken, so none of its frames and streams can cost anything.
#[tokio::test]
async fn http2_is_not_spoken() {
    let authority = Authority::new();
    for (offered, expected) in [
        (&[&b"h2"[..], &b"http/1.1"[..]][..], answered(200)),
        (&[&b"http/1.1"[..]], answered(200)),
        (&[&b"h2"[..]], Failure::Tls.into()),
    ] {
        let protocols = offered.iter().map(|protocol| protocol.to_vec()).collect();
        let server = serving_with(acceptor_with(&authority.leaf("localhost"), protocols)).await;
        assert_eq!(call(&authority.trusting(), &url(&server)).await, expected, "{offered:?}");
    }
}

#[tokio::test]
async fn plain_http_where_tls_is_due_is_a_failed_handshake() {
    let server = Raw::start(|mut stream, _| async move {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await.expect("written");
        read_request(&mut stream).await;
    })
    .await;
    assert_eq!(call(&local(), &url(&server)).await, Failure::Tls.into());
}

#[tokio::test]
async fn a_handshake_that_is_reset_is_a_failed_connection() {
    let server = Raw::start(|stream, _| async move { reset(stream) }).await;
    assert_eq!(call(&local(), &url(&server)).await, Failure::Connect.into());
}

/// The request was not sent, so this is no timeout, which would leave a doubt.
#[tokio::test]
async fn a_handshake_that_never_ends_is_a_failed_connection() {
    let server = Raw::start(|mut stream, _| async move { while read_request(&mut stream).await.is_some() {} }).await;
    for (connect, total) in [(300, 60_000), (300, 300), (60_000, 300)] {
        let (webhook, request) = (local(), request(url(&server), connect, total));
        let ended = tokio::time::timeout(SLACK, bounded(&webhook, &request, &|| true)).await;
        assert_eq!(ended, Ok(Failure::Connect.into()), "connect {connect} ms, total {total} ms: the shorter one ends it");
    }
}

#[test]
fn extra_roots_are_for_local_stages() {
    let authority = Authority::new();
    let refused = HttpWebhook::new(WebhookConfig { extra_roots: authority.0.pem().into_bytes(), ..config(false) });
    assert!(matches!(refused, Err(WebhookError::ExtraRoots)));
    let malformed = HttpWebhook::new(WebhookConfig { extra_roots: b"no PEM".to_vec(), ..config(true) });
    assert!(matches!(malformed, Err(WebhookError::NoRoots)));
}
