//! What clients without credentials can make the server log.

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::*;

/// Collects the `check` of all log lines that have one.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Visit for Lines {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "check" {
            self.0.lock().push(format!("{value:?}"));
        }
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_failing_check_is_logged_once_a_second_however_often_it_is_requested() {
    let failing =
        || vec![("ill".to_owned(), Err("it is".to_owned())), ("bad".to_owned(), Err("so".to_owned()))];
    let bench = Bench::new(Pages { checks: Arc::new(failing), ..pages() }, AuthenticationOptions::default());
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    for _ in 0..1000 {
        assert_eq!(bench.get("/healthz", &[]).await.0, 500);
        // This hides none.
        assert_eq!(bench.get("/livez?exclude=bad", &[]).await.0, 500);
        tokio::time::advance(Duration::from_millis(10)).await;
    }
    let lines = lines.0.lock();
    let of = |check: &str| lines.iter().filter(|line| line.contains(check)).count();
    assert_eq!((of("ill"), of("bad")), (10, 10));
}
