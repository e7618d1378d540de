//! Squarified treemap (Bruls, Huizing and van Wijk): divides a rectangle into areas
//! proportional to weights and as square as possible.

/// A rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Area {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// The area of each weight, in order. Weights should be descending; those not above zero
/// get an empty area.
pub(crate) fn treemap(weights: &[f64], whole: Area) -> Vec<Area> {
    let sum: f64 = weights.iter().filter(|weight| **weight > 0.0).sum();
    let nothing = Area {
        width: 0.0,
        height: 0.0,
        ..whole
    };
    let mut areas = vec![nothing; weights.len()];
    let drawable = sum > 0.0 && whole.width > 0.0 && whole.height > 0.0;
    if !drawable {
        return areas;
    }
    let scale = whole.width * whole.height / sum;
    let mut left = whole;
    let mut row: Vec<(usize, f64)> = Vec::new();
    let mut row_sum = 0.0;
    for (place, weight) in weights
        .iter()
        .enumerate()
        .filter(|(_, weight)| **weight > 0.0)
    {
        let size = weight * scale;
        let side = left.width.min(left.height);
        let longer: Vec<f64> = row.iter().map(|(_, size)| *size).chain([size]).collect();
        let now: Vec<f64> = row.iter().map(|(_, size)| *size).collect();
        if !row.is_empty() && worst(&longer, row_sum + size, side) > worst(&now, row_sum, side) {
            left = lay(&row, row_sum, left, &mut areas);
            row.clear();
            row_sum = 0.0;
        }
        row.push((place, size));
        row_sum += size;
    }
    lay(&row, row_sum, left, &mut areas);
    areas
}

/// The worst aspect ratio of a row along a side.
fn worst(sizes: &[f64], sum: f64, side: f64) -> f64 {
    let depth = sum / side;
    sizes
        .iter()
        .map(|size| {
            let length = size / depth;
            (length / depth).max(depth / length)
        })
        .fold(0.0, f64::max)
}

/// Lays a row along the shorter side and returns the remaining rectangle.
fn lay(row: &[(usize, f64)], sum: f64, left: Area, areas: &mut [Area]) -> Area {
    if row.is_empty() || sum <= 0.0 {
        return left;
    }
    let across = left.width >= left.height;
    let side = if across { left.height } else { left.width };
    let depth = sum / side;
    let mut at = 0.0;
    for (place, size) in row {
        let length = size / depth;
        let area = if across {
            Area {
                x: left.x,
                y: left.y + at,
                width: depth,
                height: length,
            }
        } else {
            Area {
                x: left.x + at,
                y: left.y,
                width: length,
                height: depth,
            }
        };
        if let Some(slot) = areas.get_mut(*place) {
            *slot = area;
        }
        at += length;
    }
    if across {
        Area {
            x: left.x + depth,
            width: (left.width - depth).max(0.0),
            ..left
        }
    } else {
        Area {
            y: left.y + depth,
            height: (left.height - depth).max(0.0),
            ..left
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Area = Area {
        x: 0.0,
        y: 0.0,
        width: 200.0,
        height: 100.0,
    };

    fn check(weights: &[f64]) {
        let areas = treemap(weights, WHOLE);
        let sum: f64 = weights.iter().sum();
        for (weight, area) in weights.iter().zip(&areas) {
            let expected = weight / sum * 20_000.0;
            let got = area.width * area.height;
            assert!(
                (got - expected).abs() < 1e-6 * 20_000.0,
                "{got} for {expected}"
            );
            assert!(area.x >= -1e-6 && area.x + area.width <= 200.0 + 1e-6);
            assert!(area.y >= -1e-6 && area.y + area.height <= 100.0 + 1e-6);
        }
        for (place, one) in areas.iter().enumerate() {
            for two in &areas[..place] {
                let over_x = (one.x + one.width).min(two.x + two.width) - one.x.max(two.x);
                let over_y = (one.y + one.height).min(two.y + two.height) - one.y.max(two.y);
                assert!(over_x < 1e-6 || over_y < 1e-6, "{one:?} covers {two:?}");
            }
        }
    }

    #[test]
    fn areas_are_proportional_and_disjoint() {
        check(&[1.0]);
        check(&[6.0, 6.0, 4.0, 3.0, 2.0, 2.0, 1.0]);
        check(&(1..80).rev().map(f64::from).collect::<Vec<_>>());
        check(&[1_000.0, 1.0, 1.0]);
    }

    #[test]
    fn zero_weights_get_no_area() {
        assert!(treemap(&[], WHOLE).is_empty());
        let areas = treemap(&[0.0, 2.0, 0.0], WHOLE);
        assert_eq!(areas[0].width, 0.0);
        assert!((areas[1].width * areas[1].height - 20_000.0).abs() < 1e-6);
        assert_eq!(treemap(&[0.0], WHOLE)[0].width, 0.0);
    }
}
