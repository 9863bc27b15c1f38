//! `wakepath man`: the manual page, generated from the options and their help.

use std::io;
use std::process::ExitCode;

use clap::Command;

use crate::exit_code;
use crate::failure::Failure;
use crate::output::Output;

/// Prints one page for the program and all its verbs.
pub fn run(command: Command, output: &Output) -> Result<ExitCode, Failure> {
    let page = page(command)?;
    output.write(|out| out.write_all(&page))?;
    Ok(ExitCode::SUCCESS)
}

fn page(command: Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let verbs: Vec<_> = command.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned().collect();
    let man = clap_mangen::Man::new(command);
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    for verb in verbs {
        let name = verb.get_name().to_uppercase();
        let usage = verb.get_about().map(|about| about.to_string()).unwrap_or_default();
        page.extend(format!(".SH {name}\n{usage}\n").bytes());
        let man = clap_mangen::Man::new(
            verb.bin_name(format!("wakepath {}", name.to_lowercase())).disable_help_flag(true),
        );
        let mut options = Vec::new();
        man.render_options_section(&mut options)?;
        // Leave out the section's own heading: the verb's heading stands in its place.
        page.extend(
            options
                .split_inclusive(|&b| b == b'\n')
                .skip_while(|line| !line.starts_with(b".SH"))
                .skip(1)
                .flatten(),
        );
    }
    page.extend(b".SH \"EXIT STATUS\"\n");
    for (code, meaning) in exit_code::MEANINGS {
        page.extend(format!(".TP\n{code}\n{}\n", meaning.replace('-', "\\-")).bytes());
    }
    Ok(page)
}
