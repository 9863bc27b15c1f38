//! Whether the dependencies may be shipped.

use spdx::{Expression, ParseMode};

use crate::Finding;
use crate::packages::Package;

/// Licences, by SPDX id, under which a program can be given away as source and binary together with
/// ours (MIT OR Apache-2.0) with no more than a notice kept.
const ALLOWED: [&str; 12] = [
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "Unicode-3.0",
    "CC0-1.0",
    "Unlicense",
    "BSL-1.0",
    // LLVM's former licence: the conditions of MIT and BSD-3-Clause.
    "NCSA",
];

/// Packages with another licence, each with the reason why it may stay.
const ARGUED: [(&str, &str); 0] = [];

/// Whether an SPDX expression leaves an allowed alternative; an error if it is no SPDX expression.
///
/// `MIT/Apache-2.0`, as manifests wrote it before SPDX, is read as `OR`.
pub fn allows(expression: &str) -> Result<bool, String> {
    let parsed = Expression::parse_mode(expression, ParseMode::LAX)
        .map_err(|error| format!("is no SPDX expression: {}", error.reason))?;
    Ok(parsed.evaluate(|required| {
        // An exception only ever grants more than its licence.
        required.license.id().is_some_and(|id| ALLOWED.contains(&id.name))
    }))
}

/// Checks each package's licence.
pub fn check<'a>(packages: impl Iterator<Item = &'a Package>) -> Vec<Finding> {
    let unargued = packages.filter(|package| !ARGUED.iter().any(|(name, _)| *name == package.name));
    unargued
        .filter_map(|package| {
            let text = match package.license.as_deref() {
                None => "names no licence".to_owned(),
                Some(licence) => match allows(licence) {
                    Ok(true) => return None,
                    Ok(false) => format!("`{licence}` leaves no alternative that is allowed"),
                    Err(error) => format!("`{licence}` {error}"),
                },
            };
            Some(Finding::new(format!("package {} {}", package.name, package.version), text))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::allows;

    #[test]
    fn one_allowed_alternative_is_enough() {
        for good in [
            "MIT",
            "MIT OR GPL-3.0-only",
            "LGPL-2.1-only OR BSD-2-Clause",
            "MIT/Apache-2.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0-only",
            "(MIT OR Apache-2.0) AND NCSA",
        ] {
            assert_eq!(allows(good), Ok(true), "{good}");
        }
    }

    #[test]
    fn every_part_of_a_conjunction_must_be_allowed() {
        for bad in ["GPL-2.0-only", "MIT AND GPL-2.0-or-later", "MPL-2.0", "LicenseRef-own", "EPL-2.0"] {
            assert_eq!(allows(bad), Ok(false), "{bad}");
        }
    }

    #[test]
    fn what_is_no_expression_is_an_error_and_not_a_pass() {
        for bad in ["", "MIT OR", "a licence of mine"] {
            assert!(allows(bad).is_err(), "{bad}");
        }
    }
}
