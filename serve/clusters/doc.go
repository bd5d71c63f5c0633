// Package clusters runs managed clusters: the agents of nodes, the jobs of users, and for each cluster an online
// session that decides which job starts where. A cluster is the only client of its session. Everything that it
// knows stands in a journal before anybody is told, so that a server may be killed at any moment: no job is lost,
// and no attempt starts twice.
package clusters
