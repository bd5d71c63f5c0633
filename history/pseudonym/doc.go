// Package pseudonym replaces the names in texts of clusters by invented ones, so that a case can be sent to a
// stranger. What is not known to be harmless is a name: numbers, times, states, GPU types and resources stay, and
// users, accounts, jobs, nodes, paths, command lines, labels and whatever else stands in a text are replaced.
//
// The same name becomes the same invented one in all texts that are given together, and names keep their order, since
// readers and solvers break ties by names: what a text gives is then equal up to names.
//
// Each text is walked three times by the same code: to find what composite names are made of, to gather the names, and
// to write the text with the invented ones.
package pseudonym
