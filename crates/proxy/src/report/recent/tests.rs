use super::*;
use crate::report::Exit;
use crate::report::counters::Counters;
use crate::transport::Peer;
use http::Method;
use store::Key;

fn exit(recent: &Arc<Recent>) -> Exit {
    let exit = Exit::new(Arc::<Counters>::default(), Arc::new(|_: &Transaction| {}));
    exit.noting_in(Some(recent.clone()))
}

fn ask(exit: &Exit, path: &str) {
    let mut transaction = Transaction::new(exit.next_id(), Peer::Unix, Method::GET);
    transaction.asks_for_key(Key::new(cache::key::primary("http", "a.example", path)));
    transaction.status = Some(StatusCode::OK);
    exit.tell(&mut transaction);
}

#[test]
fn of_few_requests_all_are_counted_and_of_many_a_sample() {
    let recent = Arc::new(Recent::new(true));
    let exit = exit(&recent);
    (0..1000).for_each(|_| ask(&exit, "/often?secret=1"));
    (0..100).for_each(|n| ask(&exit, &format!("/{n}")));
    let told = json(std::slice::from_ref(&recent));
    let first = &told["urls"]["most"][0];
    assert_eq!((&first["name"], &first["requests"]), (&"http://a.example/often?...".into(), &1000.into()));
    assert_eq!((&told["hosts"]["most"][0]["requests"], &told["one-in"]), (&1100.into(), &1.into()));
    (0..100_000).for_each(|n| ask(&exit, if n % 4 == 0 { "/quarter" } else { "/often" }));
    let told = json(&[recent]);
    assert_eq!(told["one-in"], ONE_IN);
    let requests = |name: &str| {
        let all = told["urls"]["most"].as_array().unwrap().iter();
        all.filter(|row| row["name"] == name).filter_map(|row| row["requests"].as_u64()).sum::<u64>() as f64
    };
    let near = |n: f64, expected: f64| (n / expected - 1.0).abs() < 0.1;
    assert!(near(requests("http://a.example/quarter"), 25_000.0), "{told:#}");
    assert!(near(requests("http://a.example/often"), 75_000.0), "{told:#}");
}

#[test]
fn what_is_older_than_an_hour_is_forgotten() {
    let recent = Arc::new(Recent::new(false));
    let exit = exit(&recent);
    ask(&exit, "/");
    recent.turn();
    assert_eq!(json(std::slice::from_ref(&recent))["requests"], 1, "of the half before this one");
    recent.turn();
    assert_eq!(json(&[recent])["requests"], 0);
}

#[test]
fn it_takes_no_more_than_is_said_and_waits_for_nobody() {
    let recent = Arc::new(Recent::new(false));
    let exit = exit(&recent);
    let long = "x".repeat(8000);
    (0..2000).for_each(|n| ask(&exit, &format!("/{n}/{long}")));
    {
        // Whoever reads has it: what comes meanwhile is left out.
        let halves = recent.halves();
        ask(&exit, "/meanwhile");
        let bytes = halves[0].urls.entries().iter().map(|entry| entry.name.len()).sum::<usize>();
        assert!(halves[0].urls.entries().len() == URLS && bytes <= URLS * sketch::NAME);
    }
    assert_eq!(json(&[recent])["requests"], 2000);
}
