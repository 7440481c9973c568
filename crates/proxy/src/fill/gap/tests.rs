use super::*;
use std::future::Future as _;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Wake;

const SPANS: Spans = Spans { store: 0, id: 7, length: 95, span: 10 };

fn begin(gaps: &Arc<Gaps>, pieces: Range<u32>) -> (Seat, Closer) {
    let (seat, closer) = gaps.enter(&SPANS, pieces);
    (seat, closer.expect("somebody closes it already"))
}

fn given(seat: &mut Seat, at: u64) -> String {
    match seat.poll_at(&mut Context::from_waker(Waker::noop()), at) {
        Poll::Pending => "waits".into(),
        Poll::Ready(Given::Bytes(bytes)) => String::from_utf8(bytes.to_vec()).unwrap(),
        Poll::Ready(Given::Stored) => "stored".into(),
        Poll::Ready(Given::Beyond) => "beyond".into(),
        Poll::Ready(Given::Lost) => "lost".into(),
        Poll::Ready(Given::Refused) => "refused".into(),
    }
}

#[test]
fn a_piece_is_in_one_gap_at_most() {
    let gaps = Arc::<Gaps>::default();
    let (seat, closer) = begin(&gaps, 3..6);
    assert!([3..4, 5..9].into_iter().all(|pieces| gaps.enter(&SPANS, pieces).1.is_none()));
    let (_, before) = begin(&gaps, 1..9);
    assert_eq!((before.pieces(), closer.pieces()), (1..3, 3..6));
    assert!(gaps.find(&SPANS, 5).is_some_and(|seat| Arc::ptr_eq(&seat.gap, &closer.gap)));
    assert!(gaps.find(&SPANS, 6).is_none() && gaps.find(&Spans { id: 8, ..SPANS }, 5).is_none());
    closer.end_at(4);
    let (_, after) = begin(&gaps, 4..9);
    assert_eq!(after.pieces(), 4..9);
    assert_eq!((closer.extend(10), before.extend(2), after.extend(10)), (4, 3, 10));
    assert!(gaps.find(&SPANS, 9).is_some_and(|seat| Arc::ptr_eq(&seat.gap, &after.gap)));
    drop((closer, before, after));
    assert!(!gaps.are_closing(&SPANS) && lock(&gaps.0).is_empty());
    drop(seat);
    begin(&gaps, 3..4);
}

#[test]
fn readers_get_what_comes_then_what_is_stored_and_are_told_when_no_more_does() {
    let gaps = Arc::<Gaps>::default();
    let (mut seat, closer) = begin(&gaps, 3..5);
    assert!(closer.is_wanted());
    assert_eq!(given(&mut seat, 30), "waits");
    closer.push(b"01234");
    assert_eq!(given(&mut seat, 32), "234");
    assert_eq!([given(&mut seat, 35), given(&mut seat, 40)], ["waits", "waits"]);
    assert_eq!([given(&mut seat, 29), given(&mut seat, 50)], ["beyond", "beyond"]);
    closer.push(b"56789");
    assert_eq!((closer.piece(), closer.came()), ("0123456789".into(), (3, 10)));
    closer.put_back();
    closer.push(b"x");
    assert_eq!([given(&mut seat, 39), given(&mut seat, 40)], ["stored", "x"]);
    // Who reads the store is still on the way to what comes.
    assert_eq!((given(&mut seat, 30).as_str(), closer.is_wanted()), ("stored", true));
    drop(closer);
    assert_eq!([given(&mut seat, 40), given(&mut seat, 41)], ["x", "lost"]);
}

#[test]
fn what_it_was_taken_from_goes_back_when_it_is_closed_wherever_its_readers_are() {
    let pool = crate::budget::Budget::new(0, 0).origins;
    let gaps = Arc::<Gaps>::default();
    let (mut seat, closer) = begin(&gaps, 3..4);
    closer.hold(pool.try_take(1 << 10).unwrap());
    closer.push(b"0123456789");
    assert!(given(&mut seat, 30) == "0123456789" && pool.taken() > 0);
    closer.put_back();
    drop(closer);
    assert_eq!((given(&mut seat, 31).as_str(), pool.taken()), ("stored", 0));
}

#[test]
fn a_reader_gets_no_more_at_once_than_its_connection_has_anyway() {
    let spans = Spans { span: 1 << 20, length: 1 << 30, ..SPANS };
    let (mut seat, closer) = Arc::<Gaps>::default().enter(&spans, 0..1);
    closer.as_ref().unwrap().push(&[b'x'; 1 << 20]);
    assert_eq!(given(&mut seat, 0).len(), HELD_ANYWAY);
}

#[tokio::test]
async fn what_is_not_put_back_stays_until_its_readers_have_it() {
    let gaps = Arc::<Gaps>::default();
    let (mut first, closer) = begin(&gaps, 3..6);
    let mut second = gaps.find(&SPANS, 3).unwrap();
    closer.push(b"0123456789");
    let context = &mut Context::from_waker(Waker::noop());
    let mut pass = pin!(closer.pass(Duration::ZERO, || true));
    // However long both take.
    assert!(pass.as_mut().poll(context).is_pending());
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert!(given(&mut first, 39) == "9" && pass.as_mut().poll(context).is_pending());
    // One that waits for the next piece is held up by the other no longer than that.
    assert_eq!(given(&mut first, 40), "waits");
    let mut patient = pin!(closer.pass(Duration::from_secs(600), || false));
    assert!(patient.as_mut().poll(context).is_pending());
    assert!(pass.as_mut().poll(context).is_ready());
    assert_eq!((given(&mut second, 30).as_str(), closer.pieces()), ("beyond", 4..6));
    // Somebody else may ask for it again.
    assert!(gaps.find(&SPANS, 3).is_none());
    closer.push(b"x");
    assert_eq!((closer.came(), given(&mut first, 40).as_str()), ((4, 1), "x"));
}

/// Whatever it is polled with, and however often.
#[test]
fn a_reader_that_waits_is_woken_once() {
    struct Woken(AtomicUsize);
    impl Wake for Woken {
        fn wake(self: Arc<Woken>) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let gaps = Arc::<Gaps>::default();
    let (mut seat, closer) = begin(&gaps, 3..4);
    let mut other = gaps.find(&SPANS, 3).unwrap();
    let all: Vec<_> = (0..10).map(|_| Arc::new(Woken(AtomicUsize::new(0)))).collect();
    for woken in &all {
        let waker = Waker::from(woken.clone());
        for seat in [&mut seat, &mut other] {
            assert!(seat.poll_at(&mut Context::from_waker(&waker), 30).is_pending());
        }
    }
    drop(other);
    closer.push(b"x");
    let woken: Vec<_> = all.iter().map(|woken| woken.0.load(SeqCst)).collect();
    assert_eq!(woken, [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
}

#[tokio::test]
async fn who_takes_nothing_of_what_is_not_put_back_keeps_no_place() {
    let gaps = Arc::<Gaps>::default();
    let (mut seat, closer) = begin(&gaps, 3..6);
    closer.push(b"0123456789");
    assert_eq!(given(&mut seat, 30), "0123456789");
    assert!(!closer.pass(Duration::from_millis(1), || false).await);
    drop(closer);
    // It has all of that piece yet, and asks for the next one itself.
    assert_eq!([given(&mut seat, 31), given(&mut seat, 40)], ["123456789", "lost"]);
    assert!(gaps.find(&SPANS, 4).is_none());
}
