//! The part of a verb's help that `-h` prints: half a screen; `--help` has the rest.

/// The examples that `-h` prints.
const MAX_EXAMPLES: usize = 3;

/// The first examples of a verb's help, and the way to the rest. An example begins at a line with a command.
pub fn first(examples: &str) -> String {
    let is_command = |line: &&str| line.starts_with("  ") && line.trim_start().len() + 2 == line.len();
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
    use super::first;

    #[test]
    fn three_examples_are_shown_with_their_second_lines() {
        let examples = "Examples:\n  a\n      why\n  b    why\n  c\n      why\n  d\n\nCauses: many";
        let rest = "\n\nAll options, more examples: --help";
        assert_eq!(first(examples), format!("Examples:\n  a\n      why\n  b    why\n  c\n      why{rest}"));
        assert_eq!(first("Examples:\n  a\n\nCauses: many"), format!("Examples:\n  a{rest}"));
    }
}
