//! Processes with a terminal.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;

use evenkeel_apiserver::{ContainerProcess, ExitStatus, TerminalSize};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::copy;
use tokio::process::Command;

use crate::process::{cannot_start, exit_status};

/// A pseudo terminal: the side of the server, and the side of the process.
struct Terminal {
    server: File,
    process: File,
}

impl Terminal {
    fn open() -> io::Result<Self> {
        let server = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&server)?;
        unlockpt(&server)?;
        let path = ptsname(&server, Vec::new())?;
        let path = Path::new(OsStr::from_bytes(path.as_bytes()));
        let process = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Terminal { server: File::from(server), process })
    }
}

fn resize(terminal: &File, size: TerminalSize) -> io::Result<()> {
    let size = Winsize { ws_col: size.width, ws_row: size.height, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(terminal, size)?)
}

/// Runs a process on a terminal of its own.
pub(crate) async fn run(mut process: ContainerProcess, directory: &Path) -> ExitStatus {
    // kubectl sends the first size at once. A process that reads it earlier would see none.
    let first = match &mut process.sizes {
        Some(sizes) => sizes.next().await,
        None => None,
    };
    let started = Terminal::open().and_then(|terminal| {
        let Terminal { server, process: tty } = terminal;
        if let Some(size) = first {
            resize(&server, size)?;
        }
        // `setsid` makes the terminal the controlling one, so that it sends signals.
        let child = Command::new("setsid")
            .args(["--ctty", "--wait"])
            .args(&process.command)
            .current_dir(directory)
            .stdin(Stdio::from(tty.try_clone()?))
            .stdout(Stdio::from(tty.try_clone()?))
            .stderr(Stdio::from(tty))
            .kill_on_drop(true)
            .spawn()?;
        Ok((server, child))
    });
    let (server, mut child) = match started {
        Ok(started) => started,
        Err(error) => return cannot_start(process, &error.to_string()).await,
    };
    let (Ok(reader), Ok(writer)) = (server.try_clone(), server.try_clone()) else {
        return cannot_start(process, "no file descriptors").await;
    };
    let (stdin, stdout, sizes) = (process.stdin.take(), process.stdout.take(), process.sizes.take());
    let input = async {
        if let Some(mut stdin) = stdin {
            let _ = copy(&mut stdin, &mut tokio::fs::File::from_std(writer)).await;
        }
        std::future::pending::<()>().await;
    };
    let output = async {
        if let Some(mut stdout) = stdout {
            // Reading fails when the last process has closed the terminal.
            let _ = copy(&mut tokio::fs::File::from_std(reader), &mut stdout).await;
        }
    };
    let resizes = async {
        if let Some(mut sizes) = sizes {
            while let Some(size) = sizes.next().await {
                let _ = resize(&server, size);
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ((), status) = async { tokio::join!(output, child.wait()) } => exit_status(status),
        () = input => ExitStatus::exited(u8::MAX),
        () = resizes => ExitStatus::exited(u8::MAX),
    }
}
