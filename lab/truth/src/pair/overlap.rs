//! The overlap between a client's time and its server's.
//!
//! The server may begin with a request before the client waits for the answer, and may be busy after its last answer
//! when the client already waits again. In such time the path has the client's activity until the client waits, and the
//! server's from then on. On a busy host, which takes a guest's CPU away just when it passes a packet on, the overlap
//! is 5 to 15 ms a request.
//!
//! Both programs log each wait, by their own machine's clock. The counter shared by both machines gives the rates of
//! these clocks. Since no message arrives before it is sent, their offset follows to within half the fastest request.

use anyhow::{Context, Result, ensure};

use crate::document::{PeerWait, Truth};
use crate::two_clocks::ClockNotes;

/// Corrections to the server's sums, ns: only its time while the client waits counts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Overlap {
    pub(super) running_ns: i64,
    pub(super) runnable_ns: i64,
    /// The error bound for each boundary.
    pub(super) error_ns: i64,
}

/// Compares the waits of both; `on_clients` converts a time on the server's clock to the client's, except for a
/// constant.
fn align_waits(
    client: &[&PeerWait],
    server: &[&PeerWait],
    on_clients: impl Fn(i64) -> i64,
) -> Result<Overlap> {
    // Each of the server's waits ends with a request, the last with the connection's end.
    ensure!(
        !client.is_empty() && server.len() == client.len() + 1,
        "the client waited for {} answers, the server for {} requests",
        client.len(),
        server.len().saturating_sub(1)
    );
    let requests = || client.iter().zip(server.windows(2));
    let most = requests().map(|(c, s)| on_clients(s[0].to_ns) - c.from_ns).min().context("no requests")?;
    let least = requests().map(|(c, s)| on_clients(s[1].from_ns) - c.to_ns).max().context("no requests")?;
    ensure!(least <= most, "messages arrive {} µs before they are sent", (least - most) / 1000);
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

/// The overlap from the truths of client and server and the clocks noted by them.
pub(super) fn overlap(client: &Truth, server: &Truth, clocks: &[ClockNotes; 2]) -> Result<Overlap> {
    let [clients, servers] = clocks;
    align_waits(&answers(client), &answers(server), |at| servers.on(clients, at))
}

fn answers(truth: &Truth) -> Vec<&PeerWait> {
    truth.waits.iter().filter(|wait| wait.call == "recvfrom").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AHEAD: i64 = 5_000_000;

    /// A wait: its beginning, then its running, blocked and runnable lengths.
    fn wait(from: i64, runs: i64, blocked: i64, runnable: i64) -> PeerWait {
        PeerWait {
            call: "recvfrom".to_owned(),
            from_ns: from,
            to_ns: from + runs + blocked + runnable,
            cpu_ns: runs,
            delayed_ns: runnable,
        }
    }

    fn aligned(client: &[PeerWait], server: &[PeerWait]) -> Result<Overlap> {
        let server: Vec<PeerWait> = server
            .iter()
            .map(|wait| PeerWait { from_ns: wait.from_ns + AHEAD, to_ns: wait.to_ns + AHEAD, ..wait.clone() })
            .collect();
        align_waits(&client.iter().collect::<Vec<_>>(), &server.iter().collect::<Vec<_>>(), |at| at)
    }

    #[test]
    fn the_servers_work_counts_from_the_time_at_which_the_client_waits() {
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
            let found =
                aligned(&[first.clone(), second], &[heard_first.clone(), heard_second, end(answered)]);
            let expected = Overlap { running_ns: running, runnable_ns: runnable, error_ns: 10 };
            assert_eq!(found.unwrap(), expected, "{what}");
        }
    }

    #[test]
    fn truths_of_different_requests_are_refused() {
        let client = [wait(1_000, 0, 520, 0)];
        assert!(aligned(&client, &[wait(0, 0, 1_010, 0)]).is_err());
        assert!(aligned(&[], &[wait(0, 0, 1_010, 0)]).is_err());
        // By its truth the server worked longer than the client waited.
        assert!(aligned(&client, &[wait(0, 0, 1_010, 0), wait(2_000, 0, 0, 0)]).is_err());
    }
}
