package plot

import "io"

func (s *scene) writeHTML(w io.Writer) error { return nil }
