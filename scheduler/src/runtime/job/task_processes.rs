//! The command that starts processes for the tasks of a job.

use std::fmt;
use std::process::Command;

/// The command that starts the processes of a job, and the description that they get. See
/// [`JobSpec::in_processes`](crate::runtime::JobSpec::in_processes).
///
/// The program must pass its standard input to
/// [`TaskServer::from_stdin`](crate::runtime::TaskServer::from_stdin) and build the job from the
/// description that it gets there. Its standard output is discarded, its standard error goes to
/// that of this process. It runs with the priority of the task threads, in a process group of its
/// own: an interrupt from the terminal reaches the parent, which then ends the program.
///
/// ```no_run
/// use ebb_scheduler::runtime::{
///     Emit, JobSpec, Runtime, RuntimeOptions, TaskError, TaskProcesses, TaskServer, VecInput,
///     VecOutput,
/// };
/// use std::process::Command;
/// use std::sync::Arc;
///
/// fn copy(key: &[u8], value: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
///     emit.emit(key, value)
/// }
///
/// fn job(description: &[u8]) -> Result<JobSpec, TaskError> {
///     let text = std::str::from_utf8(description).map_err(TaskError::failed)?;
///     let (input, output) = (VecInput::lines(text, 4), VecOutput::new());
///     Ok(JobSpec::new("copy", Arc::new(input), Arc::new(copy), Arc::new(output)))
/// }
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     if std::env::args().nth(1).as_deref() == Some("tasks") {
///         return Ok(TaskServer::from_stdin()?.serve(job)?);
///     }
///     let command = || {
///         let mut command = Command::new("/proc/self/exe");
///         command.arg("tasks");
///         command
///     };
///     let description = "a line\nand another";
///     let processes = TaskProcesses::new(command, description).memory_bytes(256 << 20);
///     let spec = job(description.as_bytes())?.in_processes(Arc::new(processes));
///     let runtime = Runtime::start(RuntimeOptions::new(2))?;
///     println!("{:?}", runtime.submit(spec)?.wait().outcome);
///     Ok(())
/// }
/// ```
pub struct TaskProcesses {
    pub(in crate::runtime) command: Box<dyn Fn() -> Command + Send + Sync>,
    pub(in crate::runtime) description: Vec<u8>,
    pub(in crate::runtime) memory_bytes: Option<u64>,
}

impl TaskProcesses {
    /// Makes a description of processes: `command` returns the command that starts one. Each
    /// process gets `description`, which must be enough to build the job.
    #[must_use]
    pub fn new(
        command: impl Fn() -> Command + Send + Sync + 'static,
        description: impl Into<Vec<u8>>,
    ) -> Self {
        Self {
            command: Box::new(command),
            description: description.into(),
            memory_bytes: None,
        }
    }

    /// Limits the memory of each process, heap and stacks, to `memory_bytes`. A process that
    /// allocates more is aborted, and its task fails.
    #[must_use]
    pub fn memory_bytes(mut self, memory_bytes: u64) -> Self {
        self.memory_bytes = Some(memory_bytes);
        self
    }
}

impl fmt::Debug for TaskProcesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskProcesses")
            .field("description_bytes", &self.description.len())
            .field("memory_bytes", &self.memory_bytes)
            .finish_non_exhaustive()
    }
}
