//! T08's synthetic workload (§8.2): a function tree, by each function's number of calls and by level. Once with the search
//! held at each level, and once with a search from its beginning to its answer.

use anyhow::{Context, Result, ensure};

use super::asked::{Asked, Calls, command};
use super::held::{self, By, Held};
use super::loads::{Beside, beside};
use super::search::words;
use super::{Options, Setting, print_failed, shown};
use crate::progress;

const FAN_OUTS: [usize; 3] = [2, 4, 8];
const LEVELS: usize = 8;
/// The calls in a chunk, without work.
const CALLS: u64 = 500;
/// A call's time in a complete search, ns: all calls are alike, as in T08.
const ALIKE_NS: u64 = 3 << 15;
/// The calls between two looks for the answer.
const ALIKE: u64 = 100;

/// The time that the search adds to a call of f0 at each level, ns.
type Added = [f64; LEVELS + 1];

/// All rounds of a tree.
#[derive(Default)]
struct Tree {
    fan_out: usize,
    alone: Vec<f64>,
    held: Vec<Added>,
    /// The same by stubs.
    stubs: Vec<Added>,
    free: Vec<(Beside, bool)>,
}

/// Prints both tables.
pub fn tables(setting: &Setting<'_>, options: &Options) -> Result<()> {
    let mut trees = FAN_OUTS.map(|fan_out| Tree { fan_out, ..Tree::default() });
    let mut failed = Vec::new();
    for round in 1..=options.tree_rounds {
        for tree in &mut trees {
            let function = format!("tree{}", tree.fan_out);
            progress(&format!("trees, round {round} of {}: {function}", options.tree_rounds));
            for by in [By::Probes, By::Stubs] {
                match at_each_level(setting, tree.fan_out, &function, by) {
                    Ok((_, added)) if by == By::Stubs => tree.stubs.push(added),
                    Ok((alone, added)) => {
                        tree.alone.push(alone);
                        tree.held.push(added);
                    }
                    Err(error) => failed.push(format!("{by:?}: {error:#}")),
                }
            }
            let mut asked = Asked::start(&[], setting.program, None)?;
            let alike = Calls { function: &function, calls: ALIKE, ns: ALIKE_NS };
            match beside(&mut asked, setting, alike, &[]) {
                Ok((beside, answer)) => tree.free.push((beside, answer.is(&planted(tree.fan_out)))),
                Err(error) => failed.push(format!("{function}, until the answer: {error:#}")),
            }
        }
    }
    progress("");
    print_failed(&failed);
    println!("### A tree of functions, by level\n");
    println!(
        "`{}`; calls of `treeF`: 8 levels, on each of which one function calls F of the next one (T08 §8.2). They do nothing \
         else, so that all time is that of the probes. The search is held at each level; at level 0 the calls of `treeF` itself are \
         counted. Time added to a call of `treeF`, ns; medians of {} rounds, the least and the most in brackets.\n",
        command(setting.shown, None).join(" "),
        options.tree_rounds,
    );
    print!("{}", by_level(&trees, |tree| &tree.held));
    println!("\nThe same with `--stubs`:\n");
    print!("{}", by_level(&trees, |tree| &tree.stubs));
    println!("\n- `wakepath {}`\n", {
        let arguments = held::arguments(By::Probes);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        words(setting.shown, "treeF", "PID", &arguments).join(" ")
    });
    println!(
        "T08 has its times of this workload (figures 8.1 to 8.4) as drawings without numbers. Its text says: from level 0 to level 1 there is a \
         large step, since the analysis begins there; below, each level adds a little in the kernel, and more in user space, where each probed \
         call stops the program four times.\n"
    );
    println!("### A tree of functions, until the answer\n");
    println!(
        "The same trees; the last function computes for {} µs in each call, and the search runs from its start to its answer with the \
         parameters that it has by default. *Time lost* is what the calls took longer than before and after, from the start of `wakepath` to its end.\n",
        ALIKE_NS / 1000,
    );
    print!("{}", until_the_answer(&trees));
    println!("\n- `wakepath {}`\n", words(setting.shown, "treeF", "PID", &[]).join(" "));
    Ok(())
}

/// The functions from f0 to the computing function.
fn planted(fan_out: usize) -> Vec<String> {
    let below = (1..=LEVELS).map(|level| format!("t{fan_out}_{level}_0"));
    [format!("tree{fan_out}")].into_iter().chain(below).collect()
}

/// A call's time alone, and the added time at each level.
fn at_each_level(setting: &Setting<'_>, fan_out: usize, function: &str, by: By) -> Result<(f64, Added)> {
    let calls = Calls { function, calls: CALLS, ns: 0 };
    let mut asked = Asked::start(&[], setting.program, None)?;
    let before = asked.a_call_in_chunks(calls)?;
    let below: Vec<String> = (1..=LEVELS).map(|level| format!("t{fan_out}_{level}_1")).collect();
    let mut held = Held::start(setting.places, setting.program, function, &below, by, asked)?;
    let mut times = [0.0; LEVELS + 1];
    for (level, time) in times.iter_mut().enumerate() {
        if level > 0 {
            held.descend()?;
        }
        *time = held.a_call(calls)?;
    }
    let (answer, mut asked) = held.finish()?;
    ensure!(answer.is(&planted(fan_out)), "{function}: the search found {answer:?}");
    let after = asked.a_call_in_chunks(calls).context("after the search")?;
    Ok(added(before, times, after))
}

/// The time alone, the mean of before and after, and the added time.
fn added(before: f64, times: Added, after: f64) -> (f64, Added) {
    let alone = (before + after) / 2.0;
    (alone, times.map(|time| time - alone))
}

fn by_level(trees: &[Tree], of: impl Fn(&Tree) -> &[Added]) -> String {
    let row = |first: &str, cell: &dyn Fn(&Tree) -> String| {
        let cells: Vec<String> = trees.iter().map(cell).collect();
        format!("| {first} | {} |\n", cells.join(" | "))
    };
    let mut text = row("level", &|tree| format!("F = {}", tree.fan_out));
    text += &format!("|---|{}\n", "---:|".repeat(trees.len()));
    text += &row("a call alone", &|tree| shown(&tree.alone, 0, ""));
    for level in 0..=LEVELS {
        text += &row(&level.to_string(), &|tree| {
            shown(&of(tree).iter().map(|added| added[level]).collect::<Vec<_>>(), 0, "")
        });
    }
    text
}

fn until_the_answer(trees: &[Tree]) -> String {
    let mut text = String::from(
        "| F | a call alone | time lost | seconds with probes | calls until the answer | functions probed at once | right |\n\
         |---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for tree in trees {
        let of =
            |value: &dyn Fn(&Beside) -> f64| tree.free.iter().map(|(run, _)| value(run)).collect::<Vec<_>>();
        let right = tree.free.iter().filter(|(_, is_right)| *is_right).count();
        text += &format!(
            "| {} | {} | {} of {} | {} | {} | {} | {right} of {} |\n",
            tree.fan_out,
            shown(&of(&|run| run.alone / 1e3), 1, " µs"),
            shown(&of(&|run| run.lost_ms()), 0, " ms"),
            shown(&of(&|run| run.seconds), 1, " s"),
            shown(&of(&|run| run.probed_seconds), 2, ""),
            shown(&of(&|run| run.probed_calls), 0, ""),
            shown(&of(&|run| run.most_probed), 0, ""),
            tree.free.len(),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Beside, LEVELS, Tree, added, by_level, planted, until_the_answer};

    #[test]
    fn the_planted_path_goes_down_to_the_last_level() {
        let path = planted(4);
        assert_eq!((path.len(), path[0].as_str(), path[8].as_str()), (9, "tree4", "t4_8_0"));
    }

    #[test]
    fn the_time_added_is_beyond_the_mean_of_before_and_after() {
        assert_eq!(added(100.0, [1110.0; LEVELS + 1], 120.0), (110.0, [1000.0; LEVELS + 1]));
    }

    #[test]
    fn a_row_for_each_level_and_a_column_for_each_tree() {
        let mut less = [0.0; LEVELS + 1];
        less[0] = 1000.0;
        less[8] = 9000.0;
        let mut more = less;
        more[8] = 9200.0;
        let tree = |fan_out, held| Tree { fan_out, alone: vec![100.0], held, ..Tree::default() };
        let text = by_level(&[tree(2, vec![less, more, more]), tree(8, vec![less])], |tree| &tree.held);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 12);
        assert_eq!(lines[0], "| level | F = 2 | F = 8 |");
        assert_eq!(lines[1], "|---|---:|---:|");
        assert_eq!(lines[2], "| a call alone | 100 | 100 |");
        assert_eq!(lines[3], "| 0 | 1000 (1000 to 1000) | 1000 |");
        assert_eq!(lines[11], "| 8 | 9200 (9000 to 9200) | 9000 |");
    }

    #[test]
    fn the_time_that_is_lost_is_that_of_all_calls() {
        let run = Beside {
            alone: 100_000.0,
            with: 110_000.0,
            calls: 20_000.0,
            seconds: 2.5,
            probed_seconds: 1.25,
            probed_calls: 9000.0,
            most_probed: 17.0,
        };
        let tree = Tree { fan_out: 2, free: vec![(run, true), (run, false)], ..Tree::default() };
        let text = until_the_answer(&[tree]);
        let row = text.lines().nth(2).expect("a row");
        assert_eq!(
            row,
            "| 2 | 100.0 µs (100.0 to 100.0) | 200 ms (200 to 200) of 2.5 s (2.5 to 2.5) | 1.25 (1.25 to 1.25) | 9000 (9000 to 9000) | 17 (17 to 17) | 1 of 2 |"
        );
    }
}
