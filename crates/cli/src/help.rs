//! The part of a verb's help for `-h`: a screen at most; `--help` has the rest.

/// The examples that `-h` prints.
const MAX_EXAMPLES: usize = 3;

/// The first examples of a verb's help, and the way to the rest. An example begins at a line with a command.
pub fn first(examples: &str) -> String {
    let is_command = |line: &str| line.strip_prefix("  ").is_some_and(|rest| !rest.starts_with(' '));
    let mut commands = 0;
    let lines = examples.lines().take_while(|line| {
        commands += usize::from(is_command(line));
        commands <= MAX_EXAMPLES && !line.is_empty()
    });
    let shown: Vec<&str> = lines.collect();
    format!("{}\n\nAll options, more examples: --help", shown.join("\n"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::first;
    use crate::arguments::Arguments;

    #[test]
    fn a_verbs_short_help_fits_on_a_screen() {
        const MAX_LINES: usize = 45;
        let mut program = Arguments::command();
        program.build();
        for verb in program.get_subcommands_mut() {
            let lines = verb.render_help().to_string().lines().count();
            assert!(lines <= MAX_LINES, "{} -h has {lines} lines", verb.get_name());
        }
    }

    #[test]
    fn three_examples_are_shown_with_their_second_lines() {
        let examples = "Examples:\n  a\n      why\n  b    why\n  c\n      why\n  d\n\nCauses: many";
        let rest = "\n\nAll options, more examples: --help";
        assert_eq!(first(examples), format!("Examples:\n  a\n      why\n  b    why\n  c\n      why{rest}"));
        assert_eq!(first("Examples:\n  a\n\nCauses: many"), format!("Examples:\n  a{rest}"));
    }
}
