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
  stored <- as.numeric(case$pareto_k)
  difference <- if (is.finite(stored)) abs(fit$diagnostics$pareto_k - stored) else 0
  worst <- max(worst, difference)
  if (difference > 1e-12) cat(name, difference, "\n")
}
cat("largest difference in pareto_k:", worst, "\n")
