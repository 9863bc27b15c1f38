//! Where a client's time and its server's lie on each other.
//!
//! The server may begin with a request before the client has come to wait for the answer, and may be busy
//! with what follows its last answer when the client already waits again. Of such time the path has what
//! the client did until it waits, and what the server did from then on. On a busy host, which takes a
//! guest's CPU away just when it hands a packet over, it is 5 to 15 ms a request.
//!
//! Both keep books of each wait, by the clock of their own machine. The counter that both machines share
//! tells how fast these clocks go; where they stand to each other follows, to within half the fastest
//! request, from this: no message is heard before it is sent.

use anyhow::{Context, Result, ensure};

use crate::document::{PeerWait, Truth};
use crate::two_clocks::Notes;

/// What has to be added to the server's sums, ns, so that they count as long as the client waits.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Overlap {
    pub(super) running_ns: i64,
    pub(super) runnable_ns: i64,
    /// How wrong each boundary may be.
    pub(super) error_ns: i64,
}

/// Lays the waits of both beside each other; `on_clients` converts a moment of the server's clock to the
/// client's, but for a constant.
fn lay(client: &[&PeerWait], server: &[&PeerWait], on_clients: impl Fn(i64) -> i64) -> Result<Overlap> {
    // The server's waits end with a request each, but for the last, which ends with the connection.
    ensure!(
        !client.is_empty() && server.len() == client.len() + 1,
        "the client waited for {} answers, the server for {} requests",
        client.len(),
        server.len().saturating_sub(1)
    );
    let requests = || client.iter().zip(server.windows(2));
    let most = requests().map(|(c, s)| on_clients(s[0].to_ns) - c.from_ns).min().context("no requests")?;
    let least = requests().map(|(c, s)| on_clients(s[1].from_ns) - c.to_ns).max().context("no requests")?;
    ensure!(least <= most, "messages are heard {} µs before they are sent", (least - most) / 1000);
    let constant = least + (most - least) / 2;
    let mut overlap = Overlap { error_ns: (most - least) / 2, ..Overlap::default() };
    for (waits, served) in requests() {
        let waits_from = waits.from_ns + waits.cpu_ns;
        let woken = on_clients(served[0].to_ns - served[0].delayed_ns) - constant;
        let early = (waits_from - woken).max(0);
        let runnable = early.min(served[0].delayed_ns);
        overlap.runnable_ns -= runnable;
        overlap.running_ns -= early - runnable;
        let busy_until = on_clients(served[0].from_ns + served[0].cpu_ns) - constant;
        overlap.running_ns += (busy_until.min(woken) - waits_from).max(0);
    }
    Ok(overlap)
}

/// What the books of client and server say, on the clocks that they noted.
pub(super) fn overlap(client: &Truth, server: &Truth, clocks: &[Notes; 2]) -> Result<Overlap> {
    let [clients, servers] = clocks;
    lay(&answers(client), &answers(server), |at| servers.on(clients, at))
}

fn answers(truth: &Truth) -> Vec<&PeerWait> {
    truth.waits.iter().filter(|wait| wait.call == "recvfrom").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AHEAD: i64 = 5_000_000;

    /// From, how long it runs on, blocked, runnable.
    fn wait(from: i64, runs: i64, blocked: i64, runnable: i64) -> PeerWait {
        PeerWait {
            call: "recvfrom".to_owned(),
            from_ns: from,
            to_ns: from + runs + blocked + runnable,
            cpu_ns: runs,
            delayed_ns: runnable,
        }
    }

    fn laid(client: &[PeerWait], server: &[PeerWait]) -> Result<Overlap> {
        let server: Vec<PeerWait> = server
            .iter()
            .map(|wait| PeerWait { from_ns: wait.from_ns + AHEAD, to_ns: wait.to_ns + AHEAD, ..wait.clone() })
            .collect();
        lay(&client.iter().collect::<Vec<_>>(), &server.iter().collect::<Vec<_>>(), |at| at)
    }

    #[test]
    fn what_the_server_did_counts_from_when_the_client_waits() {
        // The first request binds the clocks, both ways 10; the second is as the case says.
        let first = wait(1_000, 0, 520, 0);
        let heard_first = wait(0, 0, 1_010, 0);
        let end = |from| wait(from, 0, 1_000, 0);
        for (what, second, heard_second, (running, runnable)) in [
            ("in time", wait(3_000, 5, 600, 0), wait(1_510, 0, 1_500, 0), (0, 0)),
            (
                "the client runs on for 200 after it asked",
                wait(3_000, 200, 600, 0),
                wait(1_510, 0, 1_500, 0),
                (-190, 0),
            ),
            (
                "and the server had no CPU at first",
                wait(3_000, 200, 600, 0),
                wait(1_510, 0, 1_500, 50),
                (-140, -50),
            ),
            (
                "the server still ran for 100 behind its last answer",
                wait(3_000, 0, 900, 0),
                wait(1_510, 1_590, 0, 0),
                (100, 0),
            ),
        ] {
            let answered = wait(heard_second.to_ns + 500, 0, 0, 0).from_ns;
            let found = laid(&[first.clone(), second], &[heard_first.clone(), heard_second, end(answered)]);
            let expected = Overlap { running_ns: running, runnable_ns: runnable, error_ns: 10 };
            assert_eq!(found.unwrap(), expected, "{what}");
        }
    }

    #[test]
    fn books_that_cannot_be_of_the_same_requests_are_refused() {
        let client = [wait(1_000, 0, 520, 0)];
        assert!(laid(&client, &[wait(0, 0, 1_010, 0)]).is_err());
        assert!(laid(&[], &[wait(0, 0, 1_010, 0)]).is_err());
        // The server says that it worked for longer than the client waited.
        assert!(laid(&client, &[wait(0, 0, 1_010, 0), wait(2_000, 0, 0, 0)]).is_err());
    }
}
