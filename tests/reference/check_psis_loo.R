# Recomputes psis_loo.json with the installed loo from the recipes in it, and reports differences.
# Run in this directory: Rscript check_psis_loo.R   (Debian: r-cran-loo, r-cran-jsonlite)
suppressMessages({library(loo); library(jsonlite)})
source("recipes.R")
reference <- fromJSON("psis_loo.json", simplifyVector = FALSE)
cat("stored:", reference$made_with, "\nhere:   loo", as.character(packageVersion("loo")), "\n")
worst <- 0
for (name in names(reference$cases)) {
  case <- reference$cases[[name]]
  if (!is.null(case$error)) next
  x <- eval(parse(text = case$recipe))
  fit <- suppressWarnings(psis(x, r_eff = 1))
  stored <- as.numeric(c(case$pareto_k, case$n_eff, case$lw_sum))
  here <- c(fit$diagnostics$pareto_k, fit$diagnostics$n_eff, sum(fit$log_weights))
  difference <- max(ifelse(stored == here, 0, abs(here - stored) / pmax(1, abs(stored))))
  worst <- max(worst, difference)
  if (difference > 1e-12) cat(name, difference, "\n")
}
cat("largest relative difference in pareto_k, n_eff and sum of log weights:", worst, "\n")
