//! A garbage collection for which a request waited, and the request that had asked for it.

use wakepath_critical_path::WaitId;

use super::*;

/// `victim` waits for the VM thread from 300 to 600 and from 700 to 800; `asker` asked for the first operation.
const HOST: &str = "
    host web3 realtime=1000000
    thread victim tid=10
    thread asker tid=11 tgid=10
    thread vm tid=12 tgid=10 blocked=interruptible call=202:0x2000
    0 c0 idle started
    0 c0 idle switch victim
    0 c1 idle switch asker
    1 c1 asker rename vm VM Thread
    250 c1 asker waking vm
    260 c1 asker switch vm blocked call=202:0x1000
    300 c0 victim switch idle blocked call=202:0x3000
    600 c1 vm waking victim
    600 c0 idle switch victim
    700 c0 victim switch idle blocked call=202:0x3000
    800 c1 vm waking victim
    800 c0 idle switch victim
    850 c1 vm waking asker
    860 c1 vm switch asker blocked call=202:0x2000
    890 c0 victim switch idle blocked
    890 c1 asker switch idle blocked
    1000 c0 idle stopped
";

#[test]
fn time_in_collections_that_a_request_asked_for_is_counted_with_these() {
    let spans = "service s pid=10
        a/a 1000110..1000890 server tid=10
        b/b 1000100..1000880 server tid=11";
    let made = made(HOST, spans);
    let (joined, which, other) = (made.joined(), made.request("a/a"), made.request("b/b"));
    let mut answer = request(&joined, which, Algorithm::default());
    let path = answer.path.as_mut().expect("a path");
    let blocked: Vec<_> = path.blocked_by.iter().map(|one| (one.request, one.total_ns)).collect();
    assert_eq!(blocked, [(other, 400)]);
    for (collections, expected) in
        [(&[][..], (0, 0)), (&[0], (1, 300)), (&[1], (1, 100)), (&[0, 1], (2, 400)), (&[7], (0, 0))]
    {
        let stacks = std::mem::take(&mut path.answer.stacks);
        path.answer.stacks = stacks.with_collections(collections.iter().map(|id| WaitId(*id)));
        assert_eq!(path.collections_by(other), expected);
        assert_eq!(path.collections_by(which), (0, 0));
    }
}
