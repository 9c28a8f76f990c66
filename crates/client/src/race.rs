//! Connects to the addresses of a server concurrently, and uses the first connection that is complete. A silent address delays
//! the next one only briefly, and may still win.

use std::fmt::Display;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::chain::Chain;
use crate::transport::BoxError;

/// How long an address may take to accept before the next one is tried, too (RFC 8305 has 250 ms, Go 300).
const ACCEPTS_WITHIN: Duration = Duration::from_millis(300);
/// The same for TLS and the response of a proxy. A machine whose process hangs accepts connections, but does not respond.
const SPEAKS_WITHIN: Duration = Duration::from_secs(2);

/// The state of an address.
enum Step<A, T, S> {
    Accepted(A, Result<T, BoxError>),
    Ready(A, Result<S, BoxError>),
}

/// Connects to all addresses with staggered starts ("happy eyeballs"): the next attempt starts after a delay or as soon as the
/// previous one fails. The first connection that is ready is used; the other attempts are cancelled.
pub(crate) async fn race<A, T, S>(
    addresses: Vec<A>,
    limit: Duration,
    connect: impl Fn(A) -> BoxFuture<'static, Result<T, BoxError>>,
    secure: impl Fn(T) -> BoxFuture<'static, Result<S, BoxError>>,
) -> Result<(A, S), BoxError>
where
    A: Copy + Display + PartialEq + Send + 'static,
    T: Send + 'static,
    S: Send + 'static,
{
    let deadline = Instant::now() + limit;
    let mut waiting = addresses.into_iter();
    let mut running = FuturesUnordered::<BoxFuture<'static, Step<A, T, S>>>::new();
    let mut under_way = vec![];
    let mut problems = vec![];
    let mut next = Instant::now();
    loop {
        if next <= Instant::now()
            && let Some(address) = waiting.next()
        {
            let connecting = connect(address);
            running.push(Box::pin(async move { Step::Accepted(address, connecting.await) }));
            under_way.push(address);
            next = Instant::now() + ACCEPTS_WITHIN;
        }
        let more = waiting.len() > 0;
        let step = tokio::select! {
            biased;
            step = timeout_at(deadline, running.next()) => step,
            () = sleep_until(next), if more => continue,
        };
        let (address, problem) = match step {
            Ok(Some(Step::Accepted(address, Ok(accepted)))) => {
                let securing = secure(accepted);
                running.push(Box::pin(async move { Step::Ready(address, securing.await) }));
                next = Instant::now() + SPEAKS_WITHIN;
                continue;
            }
            Ok(Some(Step::Ready(address, Ok(ready)))) => return Ok((address, ready)),
            Ok(Some(Step::Accepted(address, Err(problem)) | Step::Ready(address, Err(problem)))) => {
                (address, problem)
            }
            Ok(None) => return Err(problems.join("; ").into()),
            Err(_) => {
                problems.extend(under_way.iter().map(|a| format!("{a}: no connection within {limit:?}")));
                return Err(problems.join("; ").into());
            }
        };
        problems.push(format!("{address}: {}", Chain(&*problem)));
        under_way.retain(|other| *other != address);
        next = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(15);

    /// What an address does, and after how many milliseconds.
    #[derive(Clone, Copy)]
    enum Does {
        Accept(u64, Speak),
        Refuse(u64),
        Nothing,
    }
    use Does::{Accept, Nothing, Refuse};

    #[derive(Clone, Copy)]
    enum Speak {
        In(u64),
        Garbage(u64),
        Never,
    }
    use Speak::{Garbage, In, Never};

    async fn after(ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// Which address won and when, or why none did.
    async fn play(addresses: &[Does]) -> (Result<usize, String>, u64) {
        let all = addresses.to_vec();
        let connect = move |address: usize| -> BoxFuture<'static, Result<Speak, BoxError>> {
            let does = all[address];
            Box::pin(async move {
                match does {
                    Accept(ms, speak) => {
                        after(ms).await;
                        Ok(speak)
                    }
                    Refuse(ms) => {
                        after(ms).await;
                        Err("refused".into())
                    }
                    Nothing => std::future::pending().await,
                }
            })
        };
        let secure = |speak| -> BoxFuture<'static, Result<(), BoxError>> {
            Box::pin(async move {
                match speak {
                    In(ms) => {
                        after(ms).await;
                        Ok(())
                    }
                    Garbage(ms) => {
                        after(ms).await;
                        Err("garbage".into())
                    }
                    Never => std::future::pending().await,
                }
            })
        };
        let start = Instant::now();
        let won = race((0..addresses.len()).collect(), LIMIT, connect, secure).await;
        (won.map(|(address, ())| address).map_err(|e| e.to_string()), start.elapsed().as_millis() as u64)
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_address_delays_only_briefly_and_a_slow_one_may_still_win() {
        type Row<'a> = (&'a str, &'a [Does], Result<usize, &'a str>, u64);
        #[rustfmt::skip]
        let table: [Row<'_>; 11] = [
            ("the first answers",             &[Accept(10, In(20)), Accept(0, In(0))],        Ok(0), 30),
            ("the first is blackholed",       &[Nothing, Accept(10, In(20))],                 Ok(1), 330),
            ("two are",                       &[Nothing, Nothing, Accept(10, In(20))],        Ok(2), 630),
            ("the first refuses",             &[Refuse(10), Accept(10, In(20))],              Ok(1), 40),
            ("the first accepts and hangs",   &[Accept(10, Never), Accept(10, In(20))],       Ok(1), 2040),
            ("the first is no TLS server",    &[Accept(10, Garbage(10)), Accept(10, In(20))], Ok(1), 50),
            ("slow TLS beats a dead address", &[Accept(10, In(5000)), Nothing],               Ok(0), 5010),
            ("slow TCP beats a dead address", &[Accept(900, In(10)), Nothing],                Ok(0), 910),
            ("all refuse",                    &[Refuse(10), Refuse(10)],                      Err("0: refused; 1: refused"), 20),
            ("one refuses, one is silent",    &[Refuse(10), Nothing],                         Err("0: refused; 1: no connection within 15s"), 15_000),
            ("no address",                    &[],                                            Err(""), 0),
        ];
        for (case, addresses, want, took) in table {
            let (won, elapsed) = play(addresses).await;
            assert_eq!(won.as_ref().map_err(String::as_str), want.as_ref().map_err(|e| *e), "{case}");
            // tokio's timer ticks in milliseconds and rounds up.
            assert!((took..=took + 10).contains(&elapsed), "{case}: {elapsed} ms, wanted {took}");
        }
    }
}
