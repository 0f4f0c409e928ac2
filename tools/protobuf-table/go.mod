module evenkeel.dev/tools/protobuf-table

go 1.26.0
