# Makes estimates_loo.json: loo's weighted mean, its Monte Carlo variance, truncated weights and
# the generalised Pareto shapes of both tails of h * r. p = N(0, 1), q = N(0, 0.8^2).
# Run in this directory: Rscript make_estimates_loo.R   (Debian: r-cran-loo, r-cran-jsonlite)
suppressMessages({library(loo); library(jsonlite)})
source("recipes.R")
S <- 2000
theta <- 0.8 * Z(201, S)
log_ratios <- -theta^2 / 2 + theta^2 / (2 * 0.8^2)
smoothed <- suppressWarnings(psis(log_ratios, r_eff = 1))
tail_length <- attr(smoothed, "tail_len")

tail_shape <- function(a) {
  a <- sort(a)
  loo::gpdfit(a[(S - tail_length + 1):S] - a[S - tail_length])$k
}
summarise <- function(h) {
  hr <- h * exp(log_ratios - max(log_ratios))
  list(
    mean = E_loo(h, smoothed, log_ratios = log_ratios, type = "mean")$value,
    mcse = sqrt(E_loo(h, smoothed, log_ratios = log_ratios, type = "variance")$value),
    median = E_loo(h, smoothed, log_ratios = log_ratios, type = "quantile", probs = 0.5)$value,
    khat_right = tail_shape(hr),
    khat_left = tail_shape(-hr)
  )
}
truncated <- suppressWarnings(tis(log_ratios, r_eff = 1))
result <- list(
  made_with = paste0("loo ", packageVersion("loo"), ", ", R.version.string),
  recipe = "theta = 0.8 * Z(201, 2000); log_ratios = -theta^2 / 2 + theta^2 / (2 * 0.8^2)",
  theta = theta,
  tail_length = tail_length,
  identity = summarise(theta),
  square = summarise(theta^2),
  cube = summarise(theta^3),
  tis_first20 = as.vector(weights(truncated, normalize = TRUE, log = TRUE))[1:20],
  tis_mean_square = sum(theta^2 * as.vector(weights(truncated, log = FALSE)))
)
write(toJSON(result, digits = 17, auto_unbox = TRUE, pretty = FALSE), "estimates_loo.json")
