use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;
use crate::fake::{Act, Log, Seen, fake, ok};

const PODS: ResourceType = ResourceType::new("", "v1", "pods", "Pod", true);

/// A server that issues `t1`, `t2`, … and accepts only the last one.
#[derive(Default)]
struct Server {
    issued: AtomicUsize,
    has_account: AtomicBool,
    refuses_tokens: AtomicBool,
    revoked: AtomicBool,
}

impl Server {
    fn react(&self, seen: &Seen) -> Act {
        let account = "/api/v1/namespaces/kube-system/serviceaccounts";
        let missing = || Act::Reply(404, r#"{"kind":"Status","reason":"NotFound","code":404}"#.into());
        let target = seen.target.as_str();
        match (seen.method.as_str(), target.strip_prefix(account)) {
            ("GET", Some(_)) if !self.has_account.load(Ordering::SeqCst) => missing(),
            ("GET", Some(_)) => ok("{}"),
            ("POST", Some("")) => {
                self.has_account.store(true, Ordering::SeqCst);
                Act::Reply(201, "{}".into())
            }
            ("POST", Some(_)) if self.refuses_tokens.load(Ordering::SeqCst) => Act::Reply(500, String::new()),
            ("POST", Some(_)) => {
                self.revoked.store(false, Ordering::SeqCst);
                let number = self.issued.fetch_add(1, Ordering::SeqCst) + 1;
                Act::Reply(
                    201,
                    format!(r#"{{"spec":{{"expirationSeconds":3600}},"status":{{"token":"t{number}"}}}}"#),
                )
            }
            _ if target.starts_with("/api/v1/namespaces/kube-system") => ok("{}"),
            _ => {
                let good = format!("Bearer t{}", self.issued.load(Ordering::SeqCst));
                let accepted = seen.header("authorization") == good && !self.revoked.load(Ordering::SeqCst);
                if accepted { ok("{}") } else { Act::Reply(401, String::new()) }
            }
        }
    }
}

fn world() -> (Arc<Server>, Client, Identities, Log) {
    world_at(0.0)
}

fn world_at(qps: f64) -> (Arc<Server>, Client, Identities, Log) {
    let server = Arc::new(Server::default());
    let reacting = server.clone();
    let (transport, log) = fake(move |seen, _| reacting.react(seen));
    let options =
        ClientOptions { qps, burst: 1, user_agent: "kcm/v1/main".into(), ..ClientOptions::default() };
    let main = Client::new(transport.clone(), options);
    let identities = Identities::per_account(main.clone(), transport, "kcm/v1");
    (server, main, identities, log)
}

async fn read(client: &Client) -> Result<PartialObject, Error> {
    client.get_as(&PODS, &Key::new("n", "a"), None).await
}

#[tokio::test(start_paused = true)]
async fn an_account_is_created_once_and_its_token_shared() {
    let (server, _, identities, log) = world();
    let (one, two) =
        (identities.client_for("node-controller", "x"), identities.client_for("node-controller", "y"));
    let all = futures::future::join_all((0..20).map(|n| read(if n % 2 == 0 { &one } else { &two }))).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!(server.issued.load(Ordering::SeqCst), 1);
    let account = "/api/v1/namespaces/kube-system/serviceaccounts";
    assert_eq!(
        log.lines()[..4],
        [
            format!("GET {account}/node-controller"),
            "GET /api/v1/namespaces/kube-system".to_owned(),
            format!("POST {account}"),
            format!("POST {account}/node-controller/token"),
        ]
    );
    let seen = log.all();
    assert_eq!(seen[3].header("user-agent"), "kcm/v1/main");
    assert_eq!(seen[4].header("user-agent"), "kcm/v1/system:serviceaccount:kube-system:node-controller");
    assert_eq!(seen[4].header("authorization"), "Bearer t1");
}

#[tokio::test(start_paused = true)]
async fn tokens_wait_for_no_rate_limit() {
    let (server, _, identities, _) = world_at(0.001);
    let started = Instant::now();
    for account in ["a", "b", "c"] {
        read(&identities.client_for(account, account)).await.unwrap();
    }
    assert_eq!((started.elapsed(), server.issued.load(Ordering::SeqCst)), (Duration::ZERO, 3));
}

#[tokio::test(start_paused = true)]
async fn tokens_are_renewed_with_a_fifth_of_their_life_left() {
    let (server, _, identities, _) = world();
    let client = identities.client_for("a", "a");
    read(&client).await.unwrap();
    tokio::time::advance(Duration::from_secs(2879)).await;
    read(&client).await.unwrap();
    assert_eq!(server.issued.load(Ordering::SeqCst), 1);
    tokio::time::advance(Duration::from_secs(2)).await;
    read(&client).await.unwrap();
    assert_eq!(server.issued.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_failed_renewal_leaves_the_old_token_until_it_expires() {
    let (server, _, identities, log) = world();
    let client = identities.client_for("a", "a");
    read(&client).await.unwrap();
    server.refuses_tokens.store(true, Ordering::SeqCst);
    tokio::time::advance(Duration::from_secs(2900)).await;
    read(&client).await.unwrap();
    let before = log.len();
    read(&client).await.unwrap();
    assert_eq!(log.len(), before + 1, "the next renewal waits a little");
    tokio::time::advance(Duration::from_secs(700)).await;
    let error = read(&client).await.unwrap_err();
    assert!(
        matches!(&error, Error::Credentials { problem, .. } if problem.contains("kube-system/a")),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_token_is_replaced_and_the_request_repeated_once() {
    let (server, _, identities, _) = world();
    let client = identities.client_for("a", "a");
    read(&client).await.unwrap();
    server.revoked.store(true, Ordering::SeqCst);
    let all = futures::future::join_all((0..10).map(|_| read(&client))).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!(server.issued.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_second_401_is_returned() {
    let (transport, log) = fake(|seen, _| match seen.target.contains("serviceaccounts") {
        true => ok(r#"{"spec":{},"status":{"token":"t"}}"#),
        false => Act::Reply(401, String::new()),
    });
    let main = Client::new(transport.clone(), ClientOptions { qps: 0.0, ..ClientOptions::default() });
    let client = Identities::per_account(main, transport, "kcm").client_for("a", "a");
    let error = read(&client).await.unwrap_err();
    assert!(error.is_unauthorized(), "{error:?}");
    assert_eq!(log.lines().iter().filter(|l| l.ends_with("/pods/a")).count(), 2);
}

/// As after a restore of the configuration, with another issuer or key than the server has.
#[tokio::test(start_paused = true)]
async fn tokens_that_are_issued_and_refused_are_not_requested_all_the_time() {
    let (transport, log) = fake(|seen, _| match seen.target.contains("serviceaccounts") {
        true => ok(r#"{"spec":{},"status":{"token":"t"}}"#),
        false => Act::Reply(401, String::new()),
    });
    let main = Client::new(transport.clone(), ClientOptions { qps: 0.0, ..ClientOptions::default() });
    let client = Identities::per_account(main, transport, "kcm").client_for("a", "a");
    for _ in 0..60 {
        assert!(read(&client).await.unwrap_err().is_unauthorized());
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    let tokens = log.lines().iter().filter(|line| line.ends_with("/token")).count();
    assert!((6..=7).contains(&tokens), "{tokens} in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_lifetime_beyond_the_range_of_clocks_is_no_panic() {
    let (transport, _) = fake(|_, _| {
        let token = format!(r#"{{"spec":{{"expirationSeconds":{}}},"status":{{"token":"t"}}}}"#, i64::MAX);
        ok(&token)
    });
    let main = Client::new(transport.clone(), ClientOptions { qps: 0.0, ..ClientOptions::default() });
    let client = Identities::per_account(main, transport, "kcm").client_for("a", "a");
    read(&client).await.unwrap();
}

#[tokio::test]
async fn without_accounts_all_controllers_use_the_managers_identity() {
    let (transport, log) = fake(|_, _| ok("{}"));
    let main = Client::new(transport, ClientOptions { qps: 0.0, ..ClientOptions::default() });
    let client = Identities::shared(main, "kcm/v1").client_for("node-controller", "node-controller");
    read(&client).await.unwrap();
    assert_eq!(log.all()[0].header("user-agent"), "kcm/v1/node-controller");
    assert_eq!(log.all()[0].header("authorization"), "");
}
