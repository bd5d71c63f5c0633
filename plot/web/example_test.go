package web_test

import (
	"fmt"
	"html"
	"strings"

	"github.com/hare-sched/hare/plot/web"
)

// The body of a report is the caller's markup, in a document that needs no other
// file.
func ExamplePage() {
	name := "a < b"
	body := "<h1>" + html.EscapeString(name) + "</h1>\n" + web.ThemeButton + "\n"
	page := web.Page{Kind: web.Report, Title: name, Body: body}
	var b strings.Builder
	if err := page.Write(&b); err != nil {
		fmt.Println(err)
	}
	_, body, _ = strings.Cut(b.String(), "<body>\n")
	first, _, _ := strings.Cut(body, "\n")
	fmt.Println(first)
	// Output: <h1>a &lt; b</h1>
}
