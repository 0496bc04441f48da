//! [`Processes`]: the programs that the command starts, each a process group of its own.
//!
//! A shell holds each program back until it is released. A watchdog, another shell, kills the
//! groups that still run when this process has ended, even by SIGKILL. On Linux, it also finds
//! processes outside the groups, by a variable that programs have in their environment.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::ProgressBar;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;

use super::Input;
use crate::show;

/// How long a program may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// In bytes; longer lines are broken.
const LONGEST_LINE: u64 = 64 * 1024;

/// Runs `$0` once a line arrives. Without one, the command that started it has ended.
const HELD_BACK: &str = r#"read -r go && exec /bin/sh -c "$0" </dev/null"#;

/// Environment variable of programs, with the process number of their emulation.
const MARK: &str = "CONCHE_EMULATION";

/// Each line lists the live groups; `$1` is the mark. Processes may fork while it lists them, hence the
/// rounds. Also removes the directory `$0`, if there is one.
const WATCHDOG: &str = r#"while read -r line; do live=$line; done
for group in $live; do kill -s KILL -- "-$group"; done
for round in 1 2 3; do
    for file in $(grep -lzxF -e "$1" /proc/[0-9]*/environ); do
        process=${file%/environ}
        kill -s KILL "${process##*/}"
    done
done
test -z "$0" || rm -rf -- "$0""#;

/// A program that ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Its number, in the order of [`Processes::start`].
    pub number: usize,
    /// Exit status, as a shell reports it: 128 and the signal, if one ended it.
    pub status: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Held,
    Released,
    Stopped,
    /// Without SIGTERM.
    Killed,
}

pub struct Processes {
    runtime: Handle,
    inputs: Sender<Input>,
    output: Output,
    watchdog: Arc<Watchdog>,
    phases: Vec<watch::Sender<Phase>>,
    /// Children that are no programs.
    #[cfg(target_os = "linux")]
    others: BTreeSet<i32>,
}

/// Where lines of programs go.
#[derive(Clone, Debug)]
pub struct Output {
    /// Standard output has only this command's JSON.
    pub to_stderr: bool,
    pub bar: ProgressBar,
}

impl Processes {
    /// `directory` is removed when this process has ended.
    pub fn new(runtime: Handle, inputs: Sender<Input>, output: Output, directory: Option<&Path>) -> io::Result<Self> {
        let watchdog = Arc::new(Watchdog::start(directory)?);
        Ok(Self {
            runtime,
            inputs,
            output,
            watchdog,
            phases: Vec::new(),
            #[cfg(target_os = "linux")]
            others: super::orphans::adopt(),
        })
    }

    /// Starts a program, held back, and returns its number.
    pub fn start(&mut self, name: &str, command: &str) -> io::Result<usize> {
        let _inside = self.runtime.enter();
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", HELD_BACK, command]).process_group(0).kill_on_drop(true);
        shell.env(MARK, std::process::id().to_string());
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let number = self.phases.len();
        let (phase, phases) = watch::channel(Phase::Held);
        self.phases.push(phase);
        let is_stderr = self.output.to_stderr;
        let readers = [
            child.stdout.take().map(|pipe| self.runtime.spawn(self.output.clone().copy(pipe, name.into(), is_stderr))),
            child.stderr.take().map(|pipe| self.runtime.spawn(self.output.clone().copy(pipe, name.into(), true))),
        ];
        let (inputs, watchdog) = (self.inputs.clone(), Arc::clone(&self.watchdog));
        self.runtime.spawn(async move {
            let status = supervise(child, phases, &watchdog).await;
            for reader in readers.into_iter().flatten() {
                // A descendant outside the group may keep the pipe open.
                let _ = timeout(GRACE, reader).await;
            }
            let status = status.map_or(u8::MAX, code);
            // The receiver has gone if the run is over.
            let _ = inputs.send(Input::Ended(Ended { number, status }));
        });
        Ok(number)
    }

    /// Lets a program begin.
    pub fn release(&self, number: usize) {
        self.advance(number, Phase::Released);
    }

    /// Ends a program at once; [`Input::Ended`] reports it, if it has not yet.
    pub fn kill(&self, number: usize) {
        self.advance(number, Phase::Killed);
    }

    /// Ends all programs; [`Input::Ended`] reports each.
    pub fn stop(&self) {
        (0..self.phases.len()).for_each(|number| self.advance(number, Phase::Stopped));
    }

    fn advance(&self, number: usize, phase: Phase) {
        self.phases[number].send_if_modified(|current| std::mem::replace(current, phase.max(*current)) < phase);
    }
}

/// Ends processes outside the groups of their programs.
#[cfg(target_os = "linux")]
impl Drop for Processes {
    fn drop(&mut self) {
        super::orphans::kill_except(&self.others);
    }
}

async fn supervise(
    mut child: Child,
    mut phases: watch::Receiver<Phase>,
    watchdog: &Watchdog,
) -> io::Result<ExitStatus> {
    let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
    let group = group.ok_or_else(|| io::Error::other("it has ended already"))?;
    watchdog.watch(group, true);
    let ended = async {
        let mut stdin = child.stdin.take();
        // The sender outlives the programs.
        if phases.wait_for(|phase| *phase > Phase::Held).await.is_ok_and(|phase| *phase == Phase::Released)
            && let Some(stdin) = &mut stdin
        {
            stdin.write_all(b"go\n").await?;
        }
        drop(stdin);
        let phase = tokio::select! {
            status = child.wait() => return status,
            phase = phases.wait_for(|phase| *phase >= Phase::Stopped) => phase.map_or(Phase::Killed, |phase| *phase),
        };
        let grace = if phase == Phase::Killed { Duration::ZERO } else { GRACE };
        if !grace.is_zero() {
            // A group without processes needs no signal.
            let _ = killpg(group, Signal::SIGTERM);
        }
        match timeout(grace, child.wait()).await {
            Ok(status) => status,
            Err(_) => {
                let _ = killpg(group, Signal::SIGKILL);
                child.wait().await
            }
        }
    };
    let status = ended.await;
    // Processes in the background of the shell.
    let _ = killpg(group, Signal::SIGKILL);
    watchdog.watch(group, false);
    status
}

fn code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

impl Output {
    async fn copy(self, pipe: impl AsyncRead + Unpin, name: String, is_stderr: bool) {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while (&mut pipe).take(LONGEST_LINE).read_until(b'\n', &mut line).await.is_ok_and(|length| length > 0) {
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            let text = format!("{name} | {}\n", show::escape(&String::from_utf8_lossy(text)));
            line.clear();
            // A closed output ends no emulation.
            self.bar.suspend(|| {
                let _ = if is_stderr {
                    io::stderr().lock().write_all(text.as_bytes())
                } else {
                    io::stdout().lock().write_all(text.as_bytes())
                };
            });
        }
    }
}

struct Watchdog {
    live: Mutex<(BTreeSet<i32>, std::process::ChildStdin)>,
}

impl Watchdog {
    fn start(directory: Option<&Path>) -> io::Result<Self> {
        use std::os::unix::process::CommandExt;
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-c", WATCHDOG]).arg(directory.unwrap_or(Path::new("")));
        // This process may itself be the program of an emulation, with a mark.
        shell.arg(format!("{MARK}={}", std::process::id())).env_remove(MARK).process_group(0);
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let stdin = child.stdin.take().ok_or_else(|| io::Error::other("it has no standard input"))?;
        Ok(Self { live: Mutex::new((BTreeSet::new(), stdin)) })
    }

    fn watch(&self, group: Pid, is_live: bool) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let (groups, stdin) = &mut *live;
        match is_live {
            true => groups.insert(group.as_raw()),
            false => groups.remove(&group.as_raw()),
        };
        let line: Vec<String> = groups.iter().map(ToString::to_string).collect();
        // Without a watchdog, programs still end with a graceful stop.
        let _ = writeln!(stdin, "{}", line.join(" "));
    }
}
