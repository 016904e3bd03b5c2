//! The state of the screen, and the effects of keys.

use std::time::Duration;

use ebb_server::http::TableSummary;
use ebb_server::jobs::JobView;
use ebb_server::live::Load;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// The length of the load's history on the screen, in seconds.
pub(super) const SECONDS: u32 = 300;
/// The shortest silence of the server that the screen shows: above what a busy server takes for a response.
const SILENCE_MIN: Duration = Duration::from_secs(2);

/// The state of the server, as it last reported it.
pub(super) struct ServerState {
    pub(super) load: Load,
    /// The running jobs, backups and verifications. Some may have ended since the server found them.
    pub(super) jobs: Vec<JobView>,
    pub(super) tables: Vec<TableSummary>,
}

/// The state of the screen.
#[derive(Default)]
pub(super) struct Model {
    /// The address or the directory of the server.
    pub(super) place: String,
    pub(super) load: Option<Load>,
    /// The running jobs, the oldest first.
    pub(super) jobs: Vec<JobView>,
    /// The running backups and verifications, the oldest first. On the screen they follow the jobs.
    pub(super) maintenance: Vec<JobView>,
    /// The tables, the largest first.
    pub(super) tables: Vec<TableSummary>,
    /// The id of the chosen job, backup or verification.
    chosen: Option<String>,
    /// True while the footer has the question whether to cancel the chosen job, backup or verification: `y`
    /// would cancel it.
    asks: bool,
    held: bool,
    /// The time for which the server has not responded, if the screen shows it.
    silence: Option<Duration>,
    /// A message in the footer, until the next key.
    message: Option<String>,
}

/// The action that a key requests beyond a change of the screen.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Nothing,
    End,
    Cancel(String),
}

impl Model {
    pub(super) fn new(place: String) -> Self {
        Self {
            place,
            ..Self::default()
        }
    }

    pub(super) fn show(&mut self, state: ServerState) {
        let ServerState { load, jobs, tables } = state;
        self.load = Some(load);
        let mut running: Vec<_> = jobs.into_iter().filter(JobView::is_running).collect();
        running.sort_by(|a, b| a.record.id.cmp(&b.record.id));
        (self.maintenance, self.jobs) =
            (running.into_iter()).partition(|job| job.record.is_maintenance());
        self.tables = tables;
        (self.tables).sort_by_key(|table| std::cmp::Reverse(table.live_bytes));
        let is_there = |chosen: &String| self.ids().any(|id| id == chosen);
        if !self.chosen.as_ref().is_some_and(is_there) {
            let first = self.ids().next().map(str::to_owned);
            self.chosen = first;
            self.asks = false;
        }
    }

    /// Shows a message in the footer, until the next key.
    pub(super) fn tell(&mut self, text: String) {
        self.message = Some(text);
    }

    /// Notes for how long the server has not responded to a request; `None` without a request.
    pub(super) fn note_silence(&mut self, silence: Option<Duration>) {
        self.silence = silence.filter(|silence| *silence >= SILENCE_MIN);
    }

    /// Returns for how long the server has not responded, if that is long enough for the screen.
    pub(super) fn silence(&self) -> Option<Duration> {
        self.silence
    }

    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    /// Returns the ids of the jobs, backups and verifications that the user can choose from, in the order of
    /// the screen.
    fn ids(&self) -> impl Iterator<Item = &str> {
        let all = self.jobs.iter().chain(&self.maintenance);
        all.map(|job| &*job.record.id)
    }

    /// Returns the index of the chosen job, backup or verification in `list`, which is `jobs` or
    /// `maintenance`; `None` if it is not there.
    pub(super) fn chosen_of(&self, list: &[JobView]) -> Option<usize> {
        let chosen = self.chosen.as_ref()?;
        list.iter().position(|job| job.record.id == *chosen)
    }

    /// Returns the last line of the screen.
    pub(super) fn footer(&self) -> String {
        match (&self.message, self.asks, &self.chosen) {
            (_, true, Some(id)) => format!("cancel {id}? y cancels it, any other key does not"),
            (Some(message), ..) => message.clone(),
            _ if self.held => "held: space goes on   q ends".to_string(),
            _ => "up, down choose   c cancels   space holds   q ends".to_string(),
        }
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Deed {
        if key.kind == KeyEventKind::Release {
            return Deed::Nothing;
        }
        self.message = None;
        if std::mem::take(&mut self.asks) {
            return match (key.code, &self.chosen) {
                (KeyCode::Char('y'), Some(id)) => Deed::Cancel(id.clone()),
                _ => Deed::Nothing,
            };
        }
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Deed::End;
            }
            KeyCode::Char('q') | KeyCode::Esc => return Deed::End,
            KeyCode::Up | KeyCode::Char('k') => self.choose(-1),
            KeyCode::Down | KeyCode::Char('j') => self.choose(1),
            KeyCode::Char('c') => self.asks = self.chosen.is_some(),
            KeyCode::Char(' ') => self.held = !self.held,
            _ => {}
        }
        Deed::Nothing
    }

    fn choose(&mut self, by: isize) {
        let ids: Vec<_> = self.ids().collect();
        let Some(last) = ids.len().checked_sub(1) else {
            return;
        };
        let chosen = self.chosen.as_deref();
        let at = ids.iter().position(|id| Some(*id) == chosen);
        let at = at.unwrap_or(0).saturating_add_signed(by).min(last);
        self.chosen = Some(ids[at].to_owned());
    }
}
