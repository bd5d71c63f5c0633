package history

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// maxZip limits the bytes of a packed snapshot, which is held in memory.
const maxZip = 256 << 20

// kaiLists are the lists of a snapshot of the KAI scheduler that are read, with the kind of their objects, which the
// objects themselves leave out.
var kaiLists = []struct{ list, apiVersion, kind string }{
	{"nodes", "v1", "Node"}, {"pods", "v1", "Pod"}, {"podGroups", "scheduling.run.ai/v2alpha2", "PodGroup"},
	{"resourceClaims", "resource.k8s.io/v1", "ResourceClaim"}, {"resourceSlices", "resource.k8s.io/v1", "ResourceSlice"},
	{"deviceClasses", "resource.k8s.io/v1", "DeviceClass"},
}

// isZip reports whether a text begins as a packed snapshot does.
func isZip(in *bufio.Reader) bool {
	magic, _ := in.Peek(4)
	return bytes.Equal(magic, []byte("PK\x03\x04"))
}

// UnpackSnapshot returns the JSON of a snapshot of the KAI scheduler, which may be packed as zip; other texts come
// out as they are. It holds what is packed in memory.
func UnpackSnapshot(in *bufio.Reader) (io.Reader, error) {
	if !isZip(in) {
		return in, nil
	}
	packed, err := io.ReadAll(io.LimitReader(in, maxZip+1))
	if err != nil {
		return nil, err
	}
	if len(packed) > maxZip {
		return nil, errors.New("the packed snapshot has more than 256 MiB")
	}
	archive, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		return nil, err
	}
	for _, f := range archive.File {
		if strings.HasSuffix(f.Name, ".json") {
			unpacked, err := f.Open()
			if err != nil {
				return nil, err
			}
			return &capped{r: unpacked}, nil
		}
	}
	return nil, errors.New("the archive has no .json: a snapshot of KAI has snapshot.json")
}

// readKAI reads a snapshot of the KAI scheduler (GET /get-snapshot), packed or not: the objects of Kubernetes in
// it are read as those of kubectl.
func (l *kubeReader) readKAI(name string, in *bufio.Reader, cfg ReadConfig) error {
	fault := func(reason string) error { return &RowError{Place{File: name}, reason} }
	from, err := UnpackSnapshot(in)
	if err != nil {
		return fault(err.Error())
	}
	var snapshot struct {
		RawObjects map[string]json.RawMessage `json:"rawObjects"`
	}
	d := json.NewDecoder(from)
	if err := d.Decode(&snapshot); err != nil {
		return jsonFault(name, "", d, err)
	}
	if len(snapshot.RawObjects) == 0 {
		return fault("has no rawObjects: this is no snapshot of KAI")
	}
	var list bytes.Buffer
	list.WriteString(`{"kind":"List","items":[`)
	n := 0
	for _, k := range kaiLists {
		var objects []json.RawMessage
		if err := json.Unmarshal(snapshot.RawObjects[k.list], &objects); err != nil && snapshot.RawObjects[k.list] != nil {
			l.Report.setAside("rawObjects."+k.list+": is no list: counts as empty", Place{File: name,
				At: "/rawObjects/" + k.list},
				string(snapshot.RawObjects[k.list]))
		}
		for _, o := range objects {
			o = bytes.TrimSpace(o)
			if len(o) < 2 || o[0] != '{' {
				continue
			}
			if n++; n > 1 {
				list.WriteByte(',')
			}
			list.WriteString(`{"apiVersion":"` + k.apiVersion + `","kind":"` + k.kind + `"`)
			if rest := bytes.TrimSpace(o[1:]); rest[0] != '}' {
				list.WriteByte(',')
			}
			list.Write(o[1:])
		}
	}
	list.WriteString("]}")
	if n == 0 {
		return fault("has neither nodes nor pods in its rawObjects")
	}
	err = l.readKube(name, bufio.NewReader(&list), cfg)
	if at := (*jsonError)(nil); errors.As(err, &at) {
		return at.RowError
	}
	return err
}
