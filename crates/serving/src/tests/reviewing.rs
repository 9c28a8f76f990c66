//! How many requests to the API server an attacker can cause.

use tokio::time::Instant;

use super::*;

/// An API server that authenticates only alice, by her name, and counts requests per second.
struct Counter {
    start: Instant,
    seconds: Mutex<Vec<usize>>,
    takes: Duration,
}

impl Counter {
    fn count(&self) {
        let second = self.start.elapsed().as_secs() as usize;
        let mut seconds = self.seconds.lock();
        if seconds.len() <= second {
            seconds.resize(second + 1, 0);
        }
        seconds[second] += 1;
    }
}

struct CounterWire(Arc<Counter>);

impl Transport for CounterWire {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        let server = self.0.clone();
        Box::pin(async move {
            server.count();
            tokio::time::sleep(server.takes).await;
            let review: Value = serde_json::from_slice(request.body()).unwrap();
            let is_known =
                [&review["spec"]["token"], &review["spec"]["user"]].iter().any(|who| **who == "alice");
            let user = json!({"username": "alice"});
            let body =
                json!({"status": {"authenticated": is_known, "allowed": is_known, "user": user}}).to_string();
            let body = Full::from(body).map_err(|never| match never {}).boxed_unsync();
            Ok(http::Response::builder().status(201).body(body).unwrap())
        })
    }
}

fn counted(takes: Duration) -> (Arc<Server>, Arc<Counter>) {
    let counter = Arc::new(Counter { start: Instant::now(), seconds: Mutex::default(), takes });
    let client = || Some(Client::new(Arc::new(CounterWire(counter.clone())), ClientOptions::default()));
    let metrics = Metrics::default();
    let options = AuthenticationOptions::default();
    let authenticator = Authenticator::new(&options, client(), None, metrics.clone()).unwrap();
    let authorizer = Authorizer::new(&AuthorizationOptions::default(), client(), metrics);
    (Arc::new(Server::new(pages(), authenticator, authorizer)), counter)
}

async fn get(server: &Server, path: &str, token: Option<String>) -> u16 {
    let mut request = Request::get(path);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Full::<Bytes>::default()).unwrap();
    server.answer(request, &Peer::default()).await.status().as_u16()
}

/// `streams` clients send `requests` requests with made-up credentials or paths. Returns the most reviews in one second, and
/// their total. Meanwhile `/healthz` must respond without delay.
async fn flood(
    streams: usize,
    requests: usize,
    ask: fn(usize) -> (String, Option<String>),
) -> (usize, usize) {
    let (server, counter) = counted(Duration::from_millis(2));
    let clients = (0..streams).map(|stream| {
        let server = server.clone();
        async move {
            for at in 0..requests / streams {
                let (path, token) = ask(stream * requests + at);
                let code = get(&server, &path, token).await;
                assert!(matches!(code, 401 | 403 | 500), "{code}");
            }
        }
    });
    let probe = async {
        loop {
            let start = Instant::now();
            assert_eq!(get(&server, "/healthz", None).await, 200);
            assert_eq!(start.elapsed(), Duration::ZERO);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    tokio::select! {
        _ = futures::future::join_all(clients) => {}
        () = probe => {}
    }
    let seconds = counter.seconds.lock();
    (seconds.iter().copied().max().unwrap_or_default(), seconds.iter().sum())
}

#[tokio::test(start_paused = true)]
async fn made_up_tokens_cost_the_api_server_at_most_200_reviews_a_second() {
    let (worst, all) = flood(100, 100_000, |at| ("/healthz".to_owned(), Some(format!("t{at}")))).await;
    assert_eq!(all, 100_000);
    assert!((100..=200).contains(&worst), "{worst}");
}

#[tokio::test(start_paused = true)]
async fn made_up_paths_cost_the_api_server_at_most_200_reviews_a_second() {
    let (worst, _) = flood(100, 10_000, |at| (format!("/p{at}"), None)).await;
    assert!((100..=200).contains(&worst), "{worst}");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_would_wait_too_long_is_refused_at_once() {
    let (server, counter) = counted(Duration::from_secs(3600));
    let start = Instant::now();
    let all = (0..2000).map(|at| {
        let server = server.clone();
        async move {
            let code = get(&server, "/metrics", Some(format!("t{at}"))).await;
            (code, start.elapsed())
        }
    });
    let answers = futures::future::join_all(all).await;
    assert!(answers.iter().all(|(code, _)| *code == 401));
    let at_once = answers.iter().filter(|(_, waited)| waited.is_zero()).count();
    let in_the_end = answers.iter().map(|(_, waited)| *waited).max().unwrap();
    assert_eq!(at_once, 1700, "a bounded number waits");
    assert_eq!(in_the_end.as_secs(), 10, "and not for ever");
    assert!(counter.seconds.lock().iter().all(|asked| *asked <= 200));
}

/// With tokens and with paths, each more than the API server reviews.
#[tokio::test(start_paused = true)]
async fn strangers_do_not_keep_a_known_client_waiting() {
    let (server, _) = counted(Duration::from_millis(2));
    assert_eq!(get(&server, "/metrics", Some("alice".to_owned())).await, 200);
    let floods = (0..800).map(|stream| {
        let server = server.clone();
        async move {
            for at in 0.. {
                let path = format!("/{stream}/{at}");
                get(&server, &path, (stream % 2 == 0).then(|| path.clone())).await;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    });
    let scraper = async {
        for scrape in 0..3 {
            tokio::time::sleep(Duration::from_secs(15)).await;
            let start = Instant::now();
            let code = get(&server, "/metrics", Some("alice".to_owned())).await;
            assert_eq!(code, 200, "scrape {scrape}");
            assert!(start.elapsed() < Duration::from_millis(100), "scrape {scrape}: {:?}", start.elapsed());
        }
    };
    tokio::select! {
        _ = futures::future::join_all(floods) => {}
        () = scraper => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_review_is_not_cached() {
    let bench = Bench::new(pages(), AuthenticationOptions::default());
    let asked = || bench.reviews.asked.lock().len();
    #[rustfmt::skip]
    let table = [
        // token    reviews of two requests
        ("good",    1),
        ("bad",     1),
        ("unsure",  2),
    ];
    for (token, want) in table {
        let before = asked();
        for _ in 0..2 {
            bench.get("/healthz", &[("authorization", &format!("Bearer {token}"))]).await;
        }
        assert_eq!(asked() - before, want, "{token}");
    }
}
