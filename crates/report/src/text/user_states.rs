//! Programs' own states over a path, as lines on the first screen.

use wakepath_engine::{PathAnswer, UserState};

use super::part;
use crate::escape::escape;
use crate::screen::{Line, Screen};
use crate::units::{count, percent_text};
use crate::wording;

/// The most states with a line each.
const MAX_SHOWN: usize = 6;

/// The lines about programs' own states; none where programs were not traced.
pub fn user_states(screen: &mut Screen, answer: &PathAnswer, column: usize) {
    let states = &answer.user_states;
    if states.is_empty() {
        return;
    }
    screen.blank();
    screen.unwrapped(Line::faint(
        " share     time  programs' own states over this path (LTTng-UST), most time first",
    ));
    for state in states.iter().take(MAX_SHOWN) {
        let line = Line::from(words(answer, state));
        screen.hanging(Line::strong(part(state.total_ns, answer.window_ns())), column, line);
    }
    if let Some(more @ 1..) = states.len().checked_sub(MAX_SHOWN) {
        screen.wrapped(0, Line::faint(format!("{}: --json has all", count(more as u64, "further state"))));
    }
}

/// `shop:order of worker (224), 3 times, mostly waiting for disk sda (61%)`.
fn words(answer: &PathAnswer, state: &UserState) -> String {
    let thread = answer.thread(state.thread);
    let times = |n: u64| if n == 1 { String::from("once") } else { count(n, "time") };
    let seen = match (state.count, state.unseen) {
        (n, 0) => times(n),
        (0, unseen) => format!("{}, not measured", times(unseen)),
        (n, unseen) => format!("{} and {} not measured", times(n), times(unseen)),
    };
    let mut words = format!(
        "{} of {} ({}), {seen}",
        escape(state.name.as_bytes()),
        wording::named_title(&thread),
        thread.tid.number()
    );
    if let Some(largest) = answer.largest_in(state) {
        let (_, what) = wording::row(&answer.evidence_in(state), &largest.key, &largest.row);
        let share = percent_text(largest.row.total_ns, state.total_ns);
        words += &format!(": the largest part {what} ({share})");
    }
    words
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::sample::marked_path;
    use crate::screen::Layout;
    use crate::text::{Source, path};

    #[test]
    fn states_stand_under_the_rows_with_what_was_measured_in_them() {
        marked_path(|answer| {
            let text = path(answer, Source::Read(""), Layout::PLAIN);
            let states = text.lines().skip_while(|line| !line.contains("own states")).take(4);
            let states: String = states.map(|line| format!("|{line}\n")).collect();
            expect![[r#"
                | share     time  programs' own states over this path (LTTng-UST), most time first
                | 85.0%   850 ns  shop:read\x1b of reader (10), once: the largest part waiting until SIGALRM from a
                |                 timer cut the wait short (94.1%)
                |  0.0%     0 ns  shop:open of reader (10), once, not measured
            "#]].assert_eq(&states);
        });
    }
}
