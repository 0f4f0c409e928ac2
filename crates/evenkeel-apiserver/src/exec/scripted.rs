//! [`ScriptedCommands`]: commands with fixed results.

use evenkeel_base::channels::ChannelWriter;
use evenkeel_core::ExitStatus;
use tokio::io::AsyncWriteExt;

use super::{ContainerProcess, ProcessFuture, ProcessHandler};

/// The exit code of an unknown command, as of a shell.
const NOT_FOUND: u8 = 127;

/// Commands with fixed results, for [`Builder::exec`](crate::Builder::exec). An unknown command exits with code 127.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), evenkeel_apiserver::StartError> {
/// use evenkeel_apiserver::{ApiServer, ScriptedCommands, ScriptedOutput};
///
/// let commands = ScriptedCommands::new()
///     .on(["hostname"], ScriptedOutput::stdout("web-0\n"))
///     .on(["cat", "/none"], ScriptedOutput::stderr("no such file\n").exit_code(1));
/// let server = ApiServer::builder().exec(commands).start().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ScriptedCommands {
    commands: Vec<(Vec<String>, ScriptedOutput)>,
}

/// The result of a scripted command.
#[derive(Clone, Debug, Default)]
pub struct ScriptedOutput {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    status: ExitStatus,
}

impl ScriptedCommands {
    /// Returns a script without commands.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a command with all its arguments. The first of several equal ones decides.
    pub fn on<I>(mut self, command: I, output: ScriptedOutput) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.commands.push((command.into_iter().map(Into::into).collect(), output));
        self
    }

    fn output(&self, command: &[String]) -> ScriptedOutput {
        let known = self.commands.iter().find(|(known, _)| known == command);
        known.map(|(_, output)| output.clone()).unwrap_or_else(|| {
            let name = command.first().map_or("", String::as_str);
            ScriptedOutput::stderr(format!("{name}: not found\n")).exit_code(NOT_FOUND)
        })
    }
}

impl ScriptedOutput {
    /// Returns a success with this standard output.
    pub fn stdout(text: impl Into<Vec<u8>>) -> Self {
        ScriptedOutput { stdout: text.into(), ..Self::default() }
    }

    /// Returns a success with this standard error.
    pub fn stderr(text: impl Into<Vec<u8>>) -> Self {
        ScriptedOutput { stderr: text.into(), ..Self::default() }
    }

    /// Adds standard error.
    pub fn and_stderr(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.stderr = text.into();
        self
    }

    /// Sets the exit code.
    pub fn exit_code(mut self, code: u8) -> Self {
        self.status = ExitStatus::exited(code);
        self
    }
}

impl ProcessHandler for ScriptedCommands {
    fn run(&self, process: ContainerProcess) -> ProcessFuture {
        let ScriptedOutput { stdout, stderr, status } = self.output(&process.command);
        Box::pin(async move {
            // With a terminal both outputs are one.
            let mut terminal = process.stdout;
            write(terminal.as_mut(), &stdout).await;
            match process.stderr {
                Some(mut writer) => write(Some(&mut writer), &stderr).await,
                None if process.tty => write(terminal.as_mut(), &stderr).await,
                None => {}
            }
            status.into()
        })
    }
}

/// Writes to a client. An error means that the connection has ended, which ends the process too.
async fn write(writer: Option<&mut ChannelWriter>, text: &[u8]) {
    if let Some(writer) = writer {
        let _ = writer.write_all(text).await;
    }
}
