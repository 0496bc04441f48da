//! [`Command`]: prints a command, runs it without standard input, and checks its exit status.

use std::ffi::{OsStr, OsString};
use std::process::{self, Stdio};

use anyhow::{Context, Result, bail};

use crate::Project;

/// A command line with environment variables.
#[derive(Debug)]
pub struct Command {
    program: String,
    arguments: Vec<String>,
    environment: Vec<(String, OsString)>,
    shown: bool,
}

impl Command {
    /// Creates a command from a program and its arguments.
    pub fn new<'a>(program: &str, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let arguments = arguments.into_iter().map(str::to_owned).collect();
        Self { program: program.to_owned(), arguments, environment: Vec::new(), shown: true }
    }

    /// Creates a cargo command with these arguments, separated by spaces.
    pub fn cargo(arguments: &str) -> Self {
        Self::new("cargo", arguments.split_whitespace())
    }

    /// Adds an argument, which may contain spaces.
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Adds an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Suppresses printing.
    pub fn unshown(self) -> Self {
        Self { shown: false, ..self }
    }

    /// Prints the command and runs it in the project's root.
    pub fn run(self, project: &Project) -> Result<()> {
        self.judged(project, Stdio::inherit()).map(|_| ())
    }

    /// Runs the command and returns its standard output.
    pub fn output(self, project: &Project) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.judged(project, Stdio::piped())?).into_owned())
    }

    /// Runs the command at low priority.
    pub fn patient(self) -> Self {
        let arguments = ["-n", "10", self.program.as_str()].map(str::to_owned).into_iter().chain(self.arguments);
        Self { program: "nice".to_owned(), arguments: arguments.collect(), ..self }
    }

    fn judged(self, project: &Project, stdout: Stdio) -> Result<Vec<u8>> {
        let line = format!("{} {}", self.program, self.arguments.join(" "));
        if self.shown {
            println!("+ {line}");
        }
        let output = process::Command::new(&self.program)
            .args(&self.arguments)
            .envs(self.environment)
            .current_dir(&project.root)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot start {}", self.program))?;
        if !output.status.success() {
            eprint!("{}", String::from_utf8_lossy(&output.stdout));
            // The first line identifies a script.
            bail!("`{}` ended with {}", line.lines().next().unwrap_or_default(), output.status);
        }
        Ok(output.stdout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_or_does_not_exist_is_an_error() {
        let project = Project::find().expect("a checkout");
        assert!(Command::new("true", []).run(&project).is_ok());
        assert!(Command::new("false", []).run(&project).is_err());
        assert!(Command::new("no-such-program", []).run(&project).is_err());
    }

    #[test]
    fn the_output_of_a_command_is_its_standard_output() {
        let project = Project::find().expect("a checkout");
        assert_eq!(Command::new("echo", ["a"]).output(&project).expect("it runs"), "a\n");
        assert!(Command::new("sh", ["-c", "echo a; false"]).output(&project).is_err());
    }

    #[test]
    fn a_patient_command_gives_way_to_others() {
        let project = Project::find().expect("a checkout");
        let own: i32 = Command::new("nice", []).output(&project).expect("it runs").trim().parse().expect("a number");
        let patient = Command::new("nice", []).patient().output(&project).expect("it runs");
        assert_eq!(patient.trim(), (own + 10).min(19).to_string());
    }

    #[test]
    fn nothing_is_read_from_standard_input() {
        let project = Project::find().expect("a checkout");
        assert!(Command::new("sh", ["-c", "! read line"]).run(&project).is_ok());
    }
}
