//! Properties of forecasts, on loads whose truth is known.

use super::*;
use crate::availability::AvailabilityError;
use ebb_test_support::cases::parse_cases;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::f64::consts::TAU;

const HOUR_S: f64 = 3600.0;

fn series(values: impl IntoIterator<Item = f64>) -> Series {
    let values = values.into_iter().map(Some).collect();
    Series::new(0.0, HOUR_S, values).unwrap()
}

/// Returns an hourly load over `days` days: a daily wave, half as high on the last two of
/// seven days.
fn weeks(days: usize) -> Vec<f64> {
    let load = |hour: usize| {
        let high = if hour / 24 % 7 >= 5 { 0.5 } else { 1.0 };
        high * (60.0 - 40.0 * (hour as f64 / 24.0 * TAU).cos())
    };
    (0..days * 24).map(load).collect()
}

/// Multiplies each value by a lognormal factor with median 1, by Box and Muller's method.
fn noisy(values: &[f64], sd: f64, seed: u64) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut normal = || {
        let (u, v): (f64, f64) = (rng.random(), rng.random());
        (-2.0 * (1.0 - u).ln()).sqrt() * (TAU * v).cos()
    };
    values
        .iter()
        .map(|value| value * (sd * normal()).exp())
        .collect()
}

fn next(series: &Series) -> Forecast {
    Forecaster::new(series, Options::default())
        .unwrap()
        .from_end()
        .unwrap()
}

fn assert_close(a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len());
    for (slot, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() < 1e-9, "slot {slot}: {a}, not {b}");
    }
}

#[test]
fn a_repeating_week_is_forecast_exactly_and_with_certainty() {
    let values = weeks(12 * 7 + 5);
    // The next day is the first of a weekend.
    let (past, to_come) = values.split_at(12 * 7 * 24 + 4 * 24);
    let forecast = next(&series(past.iter().copied()));
    assert_close(forecast.point(), to_come);
    for q in [0.01, 0.5, 0.99] {
        assert_close(&forecast.quantile(q).unwrap(), to_come);
    }
    assert_eq!(forecast.start_s(), past.len() as f64 * HOUR_S);
    assert_eq!(forecast.step_s(), HOUR_S);
}

#[test]
fn a_horizon_longer_than_a_cycle_repeats_the_last_known_cycles() {
    let values = weeks(12 * 7);
    let (past, to_come) = values.split_at(9 * 7 * 24);
    let past = series(past.iter().copied());
    let options = Options {
        horizon_s: 10.0 * 86_400.0,
        ..Options::default()
    };
    let forecast = Forecaster::new(&past, options).unwrap().from_end().unwrap();
    assert_close(forecast.point(), &to_come[..240]);
}

#[test]
fn a_load_without_a_cycle_is_not_forecast_with_one() {
    // Levels that last 50 hours: a wrong period is ruinous here.
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let mut values = Vec::new();
    while values.len() < 70 * 24 {
        let level = rng.random_range(10.0..100.0);
        values.extend([level; 50]);
    }
    let series = series(values);
    let short = Options {
        horizon_s: 3.0 * HOUR_S,
        ..Options::default()
    };
    let evaluation = evaluate(&series, short, 30, |_| {}).unwrap();
    let ratio = evaluation.ratio.unwrap();
    assert!(ratio < 0.5, "{ratio}");
}

#[test]
fn four_days_suffice_to_forecast_a_daily_cycle() {
    let values: Vec<f64> = weeks(5);
    let forecast = next(&series(values[..4 * 24].iter().copied()));
    assert_close(forecast.point(), &values[..24]);
}

#[test]
fn noise_is_averaged_out_and_intervals_have_their_nominal_coverage() {
    let mut ratios = Vec::new();
    for seed in 1..=3 {
        let values = noisy(&weeks(20 * 7), 0.2, seed);
        let evaluation = evaluate(&series(values), Options::default(), 60, |_| {}).unwrap();
        ratios.push(evaluation.ratio.unwrap());
        for coverage in &evaluation.coverage {
            // With 1,440 slots, three standard errors are 4, 3 and 2 percentage points; the
            // rest of the tolerance is for the quantiles, which are estimates themselves.
            let off = (coverage.measured - coverage.nominal).abs();
            assert!(off < 0.05, "seed {seed}: {coverage:?}");
            let tail = (1.0 - coverage.nominal) / 2.0;
            assert!(
                (coverage.above - tail).abs() < 0.04,
                "seed {seed}: {coverage:?}"
            );
        }
    }
    // Two noisy values differ by 1.41 times as much as one differs from its median. The
    // forecast is a median of few values, so its gain is a little smaller.
    assert!(ratios.iter().all(|ratio| *ratio < 0.82), "{ratios:?}");
}

#[test]
fn a_burst_at_the_origin_raises_the_forecast_and_fades() {
    let mut values = noisy(&weeks(16 * 7), 0.02, 5);
    // Earlier bursts of the same kind for the backtest: from midnight less 8 h, double, for a
    // day.
    let mut start = 3 * 7 * 24 - 8;
    while start + 24 < values.len() {
        values[start..start + 24]
            .iter_mut()
            .for_each(|value| *value *= 2.0);
        start += 3 * 24;
    }
    let last = start - 3 * 24;
    let origin = last + 8;
    let series = series(values);
    let mut forecaster = Forecaster::new(&series, Options::default()).unwrap();
    let burst = forecaster.at(origin).unwrap();
    let usual = weeks(16 * 7);
    let high = burst.point()[0] / usual[origin];
    assert!(high > 1.2, "the burst is seen: {high}");
    let later = burst.point()[23] / usual[origin + 23];
    assert!(later < high, "and passes: {later} after {high}");
}

#[test]
fn values_after_the_origin_do_not_change_the_forecast() {
    let values = noisy(&weeks(14 * 7), 0.3, 7);
    let origin = 80 * 24;
    let mut changed = values.clone();
    changed[origin..]
        .iter_mut()
        .for_each(|value| *value = 1e6 - *value);
    let cut = series(values[..origin].iter().copied());
    let (values, changed) = (series(values), series(changed));
    let mut forecaster = Forecaster::new(&values, Options::default()).unwrap();
    // The cached rows of a later origin do not change the forecast either.
    forecaster.at(origin + 24).unwrap();
    let forecast = forecaster.at(origin).unwrap();
    let other = Forecaster::new(&changed, Options::default())
        .unwrap()
        .at(origin)
        .unwrap();
    assert_eq!(forecast, other);
    assert_eq!(forecast, next(&cut));
}

#[test]
fn an_evaluation_forecasts_each_day_from_the_values_before_it() {
    let values = noisy(&weeks(14 * 7), 0.3, 8);
    let whole = series(values.iter().copied());
    let evaluation = evaluate(&whole, Options::default(), 20, |_| {}).unwrap();
    assert_eq!((evaluation.origins, evaluation.scored), (20, 20 * 24));
    for day in [0, 7, 19] {
        let origin = values.len() - (20 - day) * 24;
        let alone = next(&series(values[..origin].iter().copied()));
        let points = &evaluation.slots[day * 24..(day + 1) * 24];
        assert!(
            points
                .iter()
                .map(|slot| slot.point)
                .eq(alone.point().iter().copied())
        );
        assert_eq!(points[3].value, Some(values[origin + 3]));
        assert_eq!(points[3].naive_week, values[origin + 3 - 7 * 24]);
    }
    // WAPE by hand.
    let error = |slot: &Predicted| (slot.value.unwrap() - slot.point).abs();
    let errors: f64 = evaluation.slots.iter().map(error).sum();
    let total: f64 = evaluation.slots.iter().filter_map(|slot| slot.value).sum();
    assert!((evaluation.wape - errors / total).abs() < 1e-12);
    let naive = |week: &str| {
        evaluation
            .methods
            .iter()
            .find(|score| score.name == week)
            .unwrap()
    };
    let best = naive("naive day").wape.min(naive("naive week").wape);
    assert_eq!(evaluation.naive_wape, best);
}

#[test]
fn gaps_are_filled_from_other_cycles() {
    let truth = weeks(12 * 7);
    let mut values: Vec<Option<f64>> = truth.iter().copied().map(Some).collect();
    // Gaps: the last day, the day a week before the forecast day, and every eleventh hour.
    let len = values.len() - 24;
    values.truncate(len);
    values[len - 24..].fill(None);
    values[len - 168..len - 144].fill(None);
    values[..len - 168]
        .iter_mut()
        .step_by(11)
        .for_each(|value| *value = None);
    let series = Series::new(0.0, HOUR_S, values).unwrap();
    assert!(series.missing() > 48);
    assert_close(next(&series).point(), &truth[len..]);
}

#[test]
fn gaps_of_an_hour_are_filled_and_longer_ones_stay() {
    let is_down = |slot: usize| (20..32).contains(&slot) || (50..63).contains(&slot);
    let value = |slot: usize| (!is_down(slot) && slot < 100).then_some(slot as f64);
    let mut series = Series::new(0.0, 300.0, (0..103).map(value).collect()).unwrap();
    series.fill_short_gaps();
    for slot in 0..103 {
        let is_missing = (50..63).contains(&slot) || slot >= 100;
        let value = series.value(slot);
        assert_eq!(value.is_none(), is_missing, "{slot}");
        assert!(value.is_none_or(|value| (value - slot as f64).abs() < 1e-9));
    }
}

#[test]
fn an_evaluation_needs_a_week_before_its_first_day() {
    let options = Options::default();
    for (len, days) in [(48, 0), (191, 0), (192, 1), (215, 1), (216, 2), (240, 3)] {
        let series = series(vec![1.0; len]);
        assert_eq!(days_to_evaluate(&series, options), Ok(days), "{len}");
        assert!(evaluate(&series, options, days + 1, |_| {}).is_err());
        assert_eq!(evaluate(&series, options, days, |_| {}).is_ok(), days > 0);
    }
}

#[test]
fn a_time_of_day_that_was_never_measured_leaves_only_flat_methods() {
    let value = |hour: usize| (hour % 24 != 3).then_some(1.0);
    let series = Series::new(0.0, HOUR_S, (0..20 * 24).map(value).collect()).unwrap();
    let mut forecaster = Forecaster::new(&series, Options::default()).unwrap();
    // Methods that forecast a flat line need no time of day.
    assert_eq!(forecaster.from_end().unwrap().point(), [1.0; 24]);
    let empty_end = |hour: usize| (hour < 24).then_some(1.0);
    let series = Series::new(0.0, HOUR_S, (0..20 * 24).map(empty_end).collect()).unwrap();
    // MSTL counts in single precision.
    let point = next(&series).point().to_vec();
    assert!(
        point.iter().all(|value| (value - 1.0).abs() < 1e-6),
        "{point:?}"
    );
    let error = evaluate(&series, Options::default(), 3, |_| {}).unwrap_err();
    assert!(
        matches!(error, ForecastError::NaiveGaps { .. }),
        "no naive week: {error}"
    );
}

#[test]
fn an_evaluation_refuses_days_without_a_load() {
    let still = |values: Vec<Option<f64>>| {
        let series = Series::new(0.0, HOUR_S, values).unwrap();
        evaluate(&series, Options::default(), 3, |_| {}).unwrap_err()
    };
    let mut values = vec![Some(1.0); 20 * 24];
    values[17 * 24..].fill(None);
    let error = still(values.clone());
    assert_eq!(error, ForecastError::NoLoad { scored: 0 });
    values[17 * 24..].fill(Some(0.0));
    assert_eq!(still(values), ForecastError::NoLoad { scored: 72 });
}

/// A ratio to the error of an exact method would be NaN or infinite. On the second series
/// only the naive method that repeats the last week is exact.
#[test]
fn ratios_to_naive_methods_that_never_miss_are_none() {
    let steady = series([1.0; 20 * 24]);
    let weekly = series(weeks(20));
    for series in [steady, weekly] {
        let evaluation = evaluate(&series, Options::default(), 3, |_| {}).unwrap();
        assert!(evaluation.naive_wape < 1e-12, "{}", evaluation.naive_wape);
        assert_eq!(evaluation.ratio, None);
        let over = evaluation.methods.iter().map(|score| score.over_naive);
        assert!(over.clone().count() > 10 && over.flatten().count() == 0);
        let shown = format!("{evaluation:?}");
        assert!(!shown.contains("NaN") && !shown.contains("inf"), "{shown}");
    }
    let noisy = series(noisy(&weeks(20), 0.3, 1));
    let evaluation = evaluate(&noisy, Options::default(), 3, |_| {}).unwrap();
    for score in &evaluation.methods {
        let expected = score.wape / evaluation.naive_wape;
        assert_eq!(score.over_naive, Some(expected), "{}", score.name);
    }
}

/// Values from almost zero to the largest valid one, and back.
#[test]
fn values_of_all_sizes_have_finite_forecasts() {
    let sizes = [1e-300, 1e100, 0.0, 1e-300, 1.0];
    let values = (0..21 * 24).map(|hour| sizes[hour / 7 % 5]);
    let series = series(values);
    let evaluation = evaluate(&series, Options::default(), 3, |_| {}).unwrap();
    let shown = format!("{evaluation:?}");
    assert!(!shown.contains("NaN") && !shown.contains("inf"), "{shown}");
    let error = Series::new(0.0, 1.0, vec![Some(1.0), Some(1e101)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "value 1 is 1e101: the largest that can be counted with is 1e100"
    );
    assert_eq!(error.index(), Some(1));
}

#[test]
fn constant_and_zero_loads_have_intervals_of_no_width() {
    for level in [0.0, 5.0] {
        let forecast = next(&series(vec![level; 21 * 24]));
        assert_eq!(forecast.point(), [level; 24]);
        assert_eq!(forecast.quantile(0.05).unwrap(), [level; 24]);
        assert_eq!(forecast.quantile(0.95).unwrap(), [level; 24]);
    }
}

#[test]
fn quantiles_ascend_and_are_never_below_zero() {
    let values = noisy(&weeks(10 * 7), 1.5, 9);
    let forecast = next(&series(values));
    let quantiles: Vec<_> = (1..=99)
        .map(|q| forecast.quantile(f64::from(q) / 100.0).unwrap())
        .collect();
    for pair in quantiles.windows(2) {
        assert!(
            pair[0]
                .iter()
                .zip(&pair[1])
                .all(|(low, high)| 0.0 <= *low && low <= high)
        );
    }
    assert!(
        quantiles[98]
            .iter()
            .zip(&quantiles[0])
            .all(|(high, low)| high > low)
    );
    for q in [0.0, 0.005, 1.0, f64::NAN] {
        assert!(
            matches!(forecast.quantile(q), Err(PlanError::Quantile(_))),
            "{q}"
        );
    }
}

#[test]
fn the_availability_shrinks_with_the_confidence() {
    let values = noisy(&weeks(10 * 7), 0.3, 10);
    let forecast = next(&series(values));
    let left = |confidence| forecast.availability(200.0, 2.0, confidence).unwrap();
    let (half, sure) = (left(0.5), left(0.95));
    let start_s = forecast.start_s();
    let load = forecast.quantile(0.95).unwrap();
    for (hour, load) in load.iter().enumerate() {
        let t_s = start_s + (hour as f64 + 0.5) * HOUR_S;
        assert!((sure.at(t_s) - (200.0 - 2.0 * load).max(0.0)).abs() < 1e-9);
        assert!(sure.at(t_s) <= half.at(t_s));
    }
    assert!(
        sure.integral(start_s, start_s + 86_400.0) < half.integral(start_s, start_s + 86_400.0)
    );
    let wrong = |capacity, unit| forecast.availability(capacity, unit, 0.5).unwrap_err();
    for error in [wrong(-1.0, 1.0), wrong(1.0, -1.0)] {
        assert!(matches!(
            error,
            PlanError::Availability(AvailabilityError::Negative { .. })
        ));
    }
    assert!(matches!(
        wrong(f64::NAN, 1.0),
        PlanError::Availability(AvailabilityError::NotFinite { .. })
    ));
}

#[test]
fn short_series_and_invalid_options_are_refused() {
    // By default a forecast needs two days and the horizon, which is a day: 72 hours.
    let short = series(vec![1.0; 71]);
    let error = Forecaster::new(&short, Options::default())
        .unwrap()
        .from_end()
        .unwrap_err();
    assert_eq!(error, ForecastError::TooShort { have: 71, need: 72 });
    assert_eq!(next(&series(vec![1.0; 72])).point(), [1.0; 24]);
    // With one day before the horizon: 48 hours.
    let early = |values: Vec<f64>| {
        let options = Options {
            past_days_min: 1,
            ..Options::default()
        };
        Forecaster::new(&series(values), options)
            .unwrap()
            .from_end()
    };
    let error = early(vec![1.0; 47]).unwrap_err();
    assert_eq!(error, ForecastError::TooShort { have: 47, need: 48 });
    let two_days = weeks(2);
    assert_close(early(two_days.clone()).unwrap().point(), &two_days[24..]);
    let beyond = Forecaster::new(&short, Options::default())
        .unwrap()
        .at(72)
        .unwrap_err();
    assert_eq!(
        beyond,
        ForecastError::Beyond {
            origin: 72,
            have: 71
        }
    );
    // The forecasts of two days span 48 hours, and the naive week needs a week before the first of them.
    let error = evaluate(&series(vec![1.0; 200]), Options::default(), 2, |_| {}).unwrap_err();
    assert_eq!(
        error,
        ForecastError::TooShortToEvaluate {
            have: 200,
            need: 7 * 24 + 48,
            days: 2,
            need_days: 9
        }
    );
    let text = error.to_string();
    assert!(text.ends_with("takes 216, the values of 9 days"), "{text}");
    assert!(evaluate(&short, Options::default(), usize::MAX, |_| {}).is_err());

    let refused = |change: &dyn Fn(&mut Options)| {
        let mut options = Options::default();
        change(&mut options);
        Forecaster::new(&short, options).unwrap_err().to_string()
    };
    // A day has at least two slots, and 3600 s are one slot.
    for day_s in [3600.0, 5000.0, 0.0, -86_400.0, f64::NAN, 1e300] {
        let message = refused(&|options| options.day_s = day_s);
        assert!(message.contains("whole number"), "{message}");
    }
    for horizon_s in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let message = refused(&|options| options.horizon_s = horizon_s);
        assert!(message.contains("horizon"), "{message}");
    }
    assert!(refused(&|options| options.backtest_days = 0).contains("past days"));
    assert!(refused(&|options| options.backtest_days = usize::MAX).contains("at most 3660"));
    assert!(refused(&|options| options.past_days_min = 0).contains("least number of past days"));
    assert!(evaluate(&short, Options::default(), 0, |_| {}).is_err());
}

#[test]
fn invalid_values_and_grids_are_refused() {
    let new = |values| Series::new(0.0, 1.0, values).unwrap_err();
    assert_eq!(new(vec![]), SeriesError::TooFew(0));
    assert_eq!(new(vec![None]), SeriesError::TooFew(0));
    let error = new(vec![Some(1.0), Some(-2.0)]);
    assert_eq!(
        error,
        SeriesError::Negative {
            index: 1,
            value: -2.0
        }
    );
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(new(vec![None, Some(value)]).index(), Some(1));
    }
    for step_s in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(
            Series::new(0.0, step_s, vec![Some(1.0)]),
            Err(SeriesError::Grid { .. })
        ));
    }
}

#[test]
fn points_go_to_the_nearest_slot() {
    let at = |t_s, value| Point { t_s, value };
    // Steps of about 10, no point in slot 3, and two in slot 4.
    let points = [
        at(5.0, 1.0),
        at(15.5, 2.0),
        at(25.0, 3.0),
        at(44.0, 4.0),
        at(46.0, 6.0),
        at(55.0, 7.0),
    ];
    let series = Series::from_points(&points).unwrap();
    assert_eq!(series.step_s(), 9.5);
    let slots =
        |series: &Series| -> Vec<_> { (0..series.len()).map(|slot| series.value(slot)).collect() };
    assert_eq!(
        slots(&series),
        [Some(1.0), Some(2.0), Some(3.0), None, Some(5.0), Some(7.0)]
    );
    assert_eq!((series.missing(), series.time_s(2)), (1, 24.0));

    let refused = |points: &[Point]| Series::from_points(points).unwrap_err();
    assert_eq!(refused(&points[..1]), SeriesError::TooFew(1));
    assert!(matches!(
        refused(&[at(1.0, 1.0), at(1.0, 2.0)]),
        SeriesError::Duplicate { index: 1, .. }
    ));
    assert!(matches!(
        refused(&[at(2.0, 1.0), at(1.0, 2.0)]),
        SeriesError::Unordered { index: 1, .. }
    ));
    assert!(matches!(
        refused(&[at(f64::NAN, 1.0), at(1.0, 2.0)]),
        SeriesError::NotFinite { index: 0, .. }
    ));
    let far = [at(0.0, 1.0), at(1.0, 1.0), at(2.0, 1.0), at(1e300, 1.0)];
    assert!(matches!(refused(&far), SeriesError::TooLong { .. }));
}

#[test]
fn csv_accepts_seconds_and_dates_and_errors_name_the_line() {
    let text = "timestamp,value\n2014-07-01 00:00:00,10\n2014-07-01 00:30:00,\r\n\n2014-07-01T01:00:00,12.5\n2014-07-01 01:30:00, 3\n";
    let series = Series::parse_csv(text).unwrap();
    assert_eq!((series.len(), series.step_s()), (3, 3600.0));
    assert_eq!(series.time_s(0), 1_404_172_800.0);
    let series = Series::parse_csv("0,1\n60,2\n120,3").unwrap();
    assert_eq!(
        (series.len(), series.value(2), series.value(3)),
        (3, Some(3.0), None)
    );

    let message = |text: &str| Series::parse_csv(text).unwrap_err().to_string();
    // `\n` is the end of a line.
    let cases = r#"
        t,v\n1,2\nnever,3 => line 3: "never" is no time: give seconds or YYYY-MM-DD HH:MM:SS
        t,v\n1,2\n2,x => line 3: "x" is no number
        t,v\n1,2,3 => line 2: expected `time,value`, got "1,2,3"
        t,v\n1,2\n\n2,-3 => line 4: value 1 is -3: a load must not be negative
        t,v\n1,2\n1,3 => line 3: value 1 has the same time as the one before it, 1 s
        t,v\n1,2 => line 2: a series needs at least two values, got 1
    "#;
    for [text, expected] in parse_cases(cases) {
        assert_eq!(message(&text.replace(r"\n", "\n")), expected);
    }
    assert_eq!(
        message(""),
        "line 1: a series needs at least two values, got 0"
    );
    assert!(message("1,NaN\n2,2").starts_with("line 1: value 0 is NaN"));
    assert!(message("2,1\n1,2").starts_with("line 2: value 1 is at 1 s, before"));
}
